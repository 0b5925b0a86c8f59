"""Numbers that every draw has: entities, overlap of files, cluster sizes; and their summaries."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from smered.layout import Floats, Int32s, Int64s
from smered.store.lifetimes import Lifetimes

__all__ = ["Counts", "Summary", "cluster_size_counts", "count_draws", "overlap_counts", "summarise"]


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
    lifetimes: Lifetimes, chains: int, draws: int, kind: Int64s | None = None, kinds: int = 1
) -> Int64s:
    """Clusters alive in every draw, by kind (kinds, chains, draws).

    A lifetime adds one from its first draw on and takes it away after its last.
    """
    if kind is None:
        kind = np.zeros(len(lifetimes), np.int64)
    change = np.zeros(kinds * chains * (draws + 1), np.int64)
    row = (kind * chains + lifetimes.chain) * (draws + 1)
    np.add.at(change, row + lifetimes.first, 1)
    np.subtract.at(change, row + lifetimes.last + 1, 1)
    return np.cumsum(change.reshape(kinds, chains, draws + 1), axis=2)[:, :, :-1]


def overlap_counts(
    lifetimes: Lifetimes, file: Int32s, files: Sequence[str], chains: int, draws: int
) -> Counts:
    """Entities by the set of files that hold them; only patterns that occur."""
    words = (len(files) + 62) // 63  # 63 files fit a signed 64-bit word; there may be more
    masks = np.empty((len(lifetimes), words), np.int64)
    shown = file[lifetimes.member].astype(np.int64)
    for word in range(words):
        inside = shown // 63 == word
        bits = np.where(inside, np.int64(1) << (shown % 63), 0)
        masks[:, word] = np.bitwise_or.reduceat(bits, lifetimes.start[:-1])
    patterns, kind = np.unique(masks, axis=0, return_inverse=True)
    names = [
        tuple(name for i, name in enumerate(files) if mask[i // 63] >> (i % 63) & 1)
        for mask in patterns.tolist()
    ]
    return Counts(tuple(names), count_draws(lifetimes, chains, draws, kind.ravel(), len(names)))


def cluster_size_counts(lifetimes: Lifetimes, chains: int, draws: int) -> Counts:
    """Entities by their number of records."""
    sizes, kind = np.unique(lifetimes.size, return_inverse=True)
    counts = count_draws(lifetimes, chains, draws, kind, len(sizes))
    return Counts(tuple(sizes.tolist()), counts)
