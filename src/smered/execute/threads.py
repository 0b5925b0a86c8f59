"""A sweep on several threads: blocks are independent, so the order of work does not matter."""

import itertools
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from smered.execute.serial import Desk, Serial
from smered.labels import Groups
from smered.layout import Layout
from smered.model import Model

__all__ = ["Threads"]

ROUNDS = 4  # in each, half of what is left is shared out, so that the last chunks are small


class Threads(Serial):
    """Runs chunks of neighbouring blocks on a pool of threads; kernels release the GIL."""

    def __init__(
        self, model: Model, layout: Layout, threads: int, groups: Groups | None = None
    ) -> None:
        super().__init__(model, layout, threads, groups)
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="smered")
        self._threads = threads
        self._chunks = shrinking_chunks(layout, threads)

    def use(self, layout: Layout) -> None:
        """Go on with another layout of the same records."""
        super().use(layout)
        self._chunks = shrinking_chunks(layout, self._threads)

    def close(self) -> None:
        """End the threads."""
        self._pool.shutdown()

    def _over_blocks(self, work: Callable[[Desk, int, int], None]) -> None:
        waiting = deque(self._chunks)

        def drain(desk: Desk) -> None:
            while waiting:
                try:
                    first, last = waiting.popleft()
                except IndexError:  # another thread took the last chunk
                    return
                work(desk, first, last)

        for _ in self._pool.map(drain, self._desks):
            pass  # re-raises what a thread raised


def shrinking_chunks(layout: Layout, threads: int) -> list[tuple[int, int]]:
    """Cut the blocks into runs, large ones first: threads then end at about the same time.

    Cost is counted in proposals and records.
    """
    shares = [0.5**r for r in range(1, ROUNDS + 1)] + [0.5**ROUNDS]
    done = np.cumsum(np.repeat(np.array(shares) / threads, threads))
    cost = np.cumsum(layout.proposals + np.diff(layout.block_start))
    if not len(cost):
        return []  # a worker may hold no records
    cuts = np.searchsorted(cost, cost[-1] * done[:-1], side="right")
    edges = np.unique(np.concatenate(([0], cuts, [len(cost)])))
    return [(int(a), int(b)) for a, b in itertools.pairwise(edges)]
