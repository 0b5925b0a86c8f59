"""Numbers that every draw has: entities, overlap of files, cluster sizes; and their summaries."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from smered.layout import Floats, Int32s, Int64s
from smered.store.lifetimes import Lifetimes

__all__ = ["Counts", "Summary", "cluster_size_counts", "count_draws", "file_patterns"]
__all__ += ["overlap_counts", "summarise"]

Whole: TypeAlias = NDArray[np.integer]

AT_ONCE = 1 << 16  # lifetimes counted at once: few enough to stay in the cache
FILES_PER_WORD = 16  # files whose presence fits one step of naming overlap patterns


@dataclass(frozen=True)
class Summary:
    """Posterior of one number: mean, standard deviation and central interval."""

    mean: float
    sd: float
    lower: float
    upper: float
    draws: Floats  # (chains, draws)

    def __str__(self) -> str:
        return f"{self.mean:,.1f} (95% interval {self.lower:,.0f} to {self.upper:,.0f})"


@dataclass(frozen=True)
class Counts:
    """Posterior of several counts: how many entities of each kind, in every draw."""

    kinds: tuple[Any, ...]
    draws: Int64s  # (kinds, chains, draws)

    def __getitem__(self, kind: Any) -> Summary:
        if kind not in self.kinds:
            return summarise(np.zeros(self.draws.shape[1:]))
        return summarise(self.draws[self.kinds.index(kind)])

    def items(self) -> list[tuple[Any, Summary]]:
        """Each kind with its summary."""
        return [(kind, self[kind]) for kind in self.kinds]


def summarise(draws: Floats | Int64s, level: float = 0.95) -> Summary:
    """Mean, standard deviation and central interval of draws."""
    lower, upper = np.quantile(draws, [(1 - level) / 2, (1 + level) / 2])
    spread = float(np.std(draws, ddof=1)) if draws.size > 1 else 0.0
    return Summary(float(np.mean(draws)), spread, float(lower), float(upper), draws.astype(float))


def count_draws(
    lifetimes: Lifetimes, chains: int, draws: int, kind: Whole | None = None, kinds: int = 1
) -> Int64s:
    """Clusters alive in every draw, by kind (kinds, chains, draws).

    A lifetime adds one from its first draw on and takes it away after its last.
    """
    cells = kinds * chains * (draws + 1)
    change = np.zeros(cells, np.int64)
    step = max(AT_ONCE, cells)
    for start in range(0, len(lifetimes), step):
        part = slice(start, start + step)
        row = lifetimes.chain[part].astype(np.int64)
        if kind is not None:
            row += np.multiply(kind[part], chains, dtype=np.int64)
        row *= draws + 1
        change += np.bincount(row + lifetimes.first[part], minlength=cells)
        row += 1
        change -= np.bincount(row + lifetimes.last[part], minlength=cells)
    return np.cumsum(change.reshape(kinds, chains, draws + 1), axis=2)[:, :, :-1]


def overlap_counts(
    lifetimes: Lifetimes, file: Int32s, files: Sequence[str], chains: int, draws: int
) -> Counts:
    """Entities by the set of files that hold them; only patterns that occur."""
    patterns, kind = file_patterns(lifetimes.member, lifetimes.start, file, files)
    return only_seen(patterns, count_draws(lifetimes, chains, draws, kind, len(patterns)))


def file_patterns(
    member: Int32s | Int64s, start: Int64s, file: Int32s, files: Sequence[str]
) -> tuple[list[tuple[str, ...]], Whole]:
    """The sets of files that hold clusters, and the number of each cluster's set among them.

    Records of cluster i are member[start[i] : start[i + 1]]. Sets may be listed that do not occur.
    """
    kind: Whole = np.zeros(0, np.int64)
    patterns: list[tuple[str, ...]] = [()]
    for first in range(0, len(files), FILES_PER_WORD):
        own = files[first : first + FILES_PER_WORD]
        bit = np.zeros(len(files), np.min_scalar_type((1 << len(own)) - 1))
        bit[first : first + FILES_PER_WORD] = 1 << np.arange(len(own))
        mask = combine(bit[file], member, start)
        seen, kind = number_small(kind.astype(np.int64) << FILES_PER_WORD | mask if first else mask)
        patterns = [
            (*patterns[key >> FILES_PER_WORD], *(f for i, f in enumerate(own) if key >> i & 1))
            for key in seen.tolist()
        ]
    return patterns, kind


def combine(bits: Whole, member: Int32s | Int64s, start: Int64s) -> Whole:
    """The bits of the records of each cluster, put together.

    Works in the same room again and again: what is new to a process comes to it page by page.
    """
    mask = np.empty(len(start) - 1, bits.dtype)
    lows = range(0, len(mask), AT_ONCE)
    most = max((start[min(low + AT_ONCE, len(mask))] - start[low] for low in lows), default=0)
    room, begin = np.empty(most, bits.dtype), np.empty(AT_ONCE, np.int64)
    for low in lows:
        rows = start[low : low + AT_ONCE + 1]
        held, first = room[: rows[-1] - rows[0]], begin[: len(rows) - 1]
        np.take(bits, member[rows[0] : rows[-1]], out=held, mode="clip")
        np.subtract(rows[:-1], rows[0], out=first)
        np.bitwise_or.reduceat(held, first, out=mask[low : low + AT_ONCE])
    return mask


def number_small(keys: Whole) -> tuple[Int64s, Whole]:
    """Distinct keys and the number of each key among them, without sorting where keys are small.

    Very small keys number themselves, so that some may be listed that do not occur.
    """
    largest = int(keys.max(initial=0))
    if largest < 64:
        return np.arange(largest + 1), keys
    if largest > 4 * len(keys) + 1024:
        return np.unique(keys, return_inverse=True)
    seen = np.flatnonzero(np.bincount(keys, minlength=largest + 1))
    number = np.zeros(largest + 1, np.int64)
    number[seen] = np.arange(len(seen))
    return seen, number[keys]


def cluster_size_counts(lifetimes: Lifetimes, chains: int, draws: int) -> Counts:
    """Entities by their number of records."""
    sizes, kind = number_small(lifetimes.size)
    return only_seen(sizes.tolist(), count_draws(lifetimes, chains, draws, kind, len(sizes)))


def only_seen(kinds: Sequence[Any], counts: Int64s) -> Counts:
    """Leave out kinds that no draw has."""
    seen = np.flatnonzero(counts.any(axis=(1, 2)))
    return Counts(tuple(kinds[int(i)] for i in seen), counts[seen])
