"""A sweep on the calling thread."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from smered.layout import BlockPrior, Clusters, Int32s, Layout, Parameters, Scratch, Statistics
from smered.model import Model
from smered.state import ChainState

__all__ = ["Desk", "Serial"]

MOVE_COUNTS = 6  # merges, splits and transfers, proposed and accepted


class Desk(NamedTuple):
    """What one thread works with: scratch room and its own counts."""

    scratch: Scratch
    statistics: Statistics


class Serial:
    """Runs sweeps over all blocks, one after the other.

    The contract of an executor: `sweep` updates the linkage of a state in place and returns the
    statistics of its y and z; `latent` draws y and z for a given linkage. Both depend on the
    state, the parameters, the prior, the seed and the chain alone.
    """

    def __init__(self, model: Model, layout: Layout, workers: int = 1) -> None:
        n, blocks = len(layout.cell), len(layout.proposals)
        self.layout = layout
        self._rings = (np.empty(n, np.int32), np.empty(n, np.int32), np.empty(n, np.float64))
        self._nothing = np.empty((0, 0), np.int32)
        block_entities, block_log_weight = np.zeros(blocks, np.int64), np.zeros(blocks)
        self._desks = [
            Desk(
                Scratch(
                    members=np.empty(model.largest_cluster, np.int32),
                    seen=np.empty(model.largest_cluster, np.int32),
                    tally=np.zeros(len(model.mu)),
                    true=np.empty(len(model.coded), np.int32),
                    lone=np.empty(len(model.coded), np.int32),
                    mark=np.zeros(len(layout.single), np.int64),
                    stamp=np.zeros(1, np.int64),
                ),
                Statistics(
                    level_counts=np.zeros(len(model.mu), np.int64),
                    distorted=np.zeros(model.observed.shape, np.int64),
                    telling=np.zeros(model.observed.shape, np.int64),
                    moves=np.zeros(MOVE_COUNTS, np.int64),
                    block_entities=block_entities,
                    block_log_weight=block_log_weight,
                ),
            )
            for _ in range(workers)
        ]

    def sweep(
        self, state: ChainState, parameters: Parameters, prior: BlockPrior, seed: int, chain: int
    ) -> Statistics:
        """Propose splits and merges in every block, then draw y and z."""
        from smered.kernels.sweep import latent_blocks, propose_blocks

        clusters = Clusters(state.entity, *self._rings)

        def work(desk: Desk, first: int, last: int) -> None:
            place = (first, last, seed, chain, state.sweep, self.layout, parameters)
            propose_blocks(*place, prior, clusters, *desk)
            latent_blocks(*place, clusters, *desk, self._nothing, self._nothing)

        return self._run(work)

    def latent(
        self,
        state: ChainState,
        parameters: Parameters,
        seed: int,
        chain: int,
        into: tuple[Int32s, Int32s] | None = None,
    ) -> Statistics:
        """Draw y and z as the sweep `state.sweep` does, writing them to the arrays `into`."""
        from smered.kernels.sweep import latent_blocks

        clusters = Clusters(state.entity, *self._rings)
        true, distorted = into if into is not None else (self._nothing, self._nothing)

        def work(desk: Desk, first: int, last: int) -> None:
            latent_blocks(
                first, last, seed, chain, state.sweep, self.layout, parameters, clusters,
                *desk, true, distorted,
            )  # fmt: skip

        return self._run(work)

    def evenness(
        self, state: ChainState, parameters: Parameters, prior: BlockPrior
    ) -> NDArray[np.float32]:
        """How even the odds of every candidate are in this state, from 0 to 1."""
        from smered.kernels.tuning import measure_evenness

        clusters = Clusters(state.entity, *self._rings)
        found = np.zeros(len(self.layout.candidates), np.float32)

        def work(desk: Desk, first: int, last: int) -> None:
            measure_evenness(
                first, last, self.layout, parameters, prior, clusters, desk.scratch, found
            )

        self._over_blocks(work)
        return found

    def use(self, layout: Layout) -> None:
        """Go on with another layout of the same records."""
        self.layout = layout

    def close(self) -> None:
        """Release threads, where there are any."""

    def _run(self, work: Callable[[Desk, int, int], None]) -> Statistics:
        for desk in self._desks:
            for counts in desk.statistics[:4]:
                counts.fill(0)
        self._over_blocks(work)
        each = [desk.statistics for desk in self._desks]
        return each[0]._replace(
            level_counts=np.sum([counts.level_counts for counts in each], axis=0),
            distorted=np.sum([counts.distorted for counts in each], axis=0),
            telling=np.sum([counts.telling for counts in each], axis=0),
            moves=np.sum([counts.moves for counts in each], axis=0),
        )

    def _over_blocks(self, work: Callable[[Desk, int, int], None]) -> None:
        work(self._desks[0], 0, len(self.layout.proposals))
