"""What the sampler asks of a prior on the linkage, and what several priors share."""

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from smered.layout import Bools, Floats, Int64s

__all__ = ["KindCounts", "Pooled", "Prior", "PriorChoice", "SameEverywhere", "slice_step"]


class Pooled(NamedTuple):
    """What the blocks say of the shares they have in common, drawn given the linkage (24)."""

    tables: Int64s  # (K,) draws of each kind from the common shares
    stopped: Int64s  # (1,)
    log_mass: Int64s  # (2,) sum of the logarithms of what each block leaves; see `smered.sums`


class KindCounts(NamedTuple):
    """How many clusters there are of each kind."""

    shares: Int64s  # (K,) by the share of their kind
    numbers: Int64s  # (1, sizes) by size, or (k, numbers) by how many records of a file they hold

    def __add__(self, other: "KindCounts") -> "KindCounts":  # type: ignore[override]
        """The counts of two parts of the records."""
        wide = max(self.numbers.shape[1], other.numbers.shape[1])
        numbers = np.zeros((len(self.numbers), wide), np.int64)
        for part in (self.numbers, other.numbers):
            numbers[:, : part.shape[1]] += part
        return KindCounts(np.add(self.shares, other.shares), numbers)


class Prior(Protocol):
    """What the sampler asks of a prior. n records, N entities; `values` are hyperparameters.

    The kind of a cluster is its size, or, with `bits`, how many records of each file it holds, in
    so many bits for each.
    """

    bits: int
    by_block: bool  # whether each block draws shares of its own, of kinds

    @property
    def hyperparameters(self) -> tuple[str, ...]:
        """Names of the learned hyperparameters."""
        ...

    def start(self, records: int) -> Floats:
        """First values of the learned hyperparameters."""
        ...

    def base(self, values: Floats) -> Floats:
        """Dirichlet hyperparameters of each block's own shares (K,); empty if it has none."""
        ...

    def log_share(self, values: Floats) -> Floats:
        """Log of the shares of kinds in all blocks (K,); empty where there are none such."""
        ...

    def update(
        self, values: Floats, kinds: KindCounts, pooled: Pooled | None, rng: np.random.Generator
    ) -> Floats:
        """Draw the learned hyperparameters given how many clusters of each kind there are.

        `pooled` is what blocks with shares of their own say.
        """
        ...

    def condition(
        self, values: Floats, entities: int, records: int, rng: np.random.Generator
    ) -> tuple[float, int]:
        """Make blocks independent: the log weight of a cluster, and the labels that are free.

        Free labels are shared out over blocks, if they are counted; else they are UNLIMITED.
        """
        ...

    def log_kind(self, largest: int, values: Floats) -> Floats:
        """Log W of every size up to `largest` (1, sizes), or of records in each file (k, numbers).

        Shares are left out.
        """
        ...

    def log_entities(self, values: Floats, entities: int, records: int) -> float:
        """Log V[N], blocks' own apart, plus the log density of the learned hyperparameters."""
        ...


class PriorChoice(Protocol):
    """What a user gives: a prior for any files."""

    def for_files(self, files: Sequence[str], records: Int64s, single: Bools, blocks: int) -> Prior:
        """The prior for these files, given their records and which of them hold no duplicates."""
        ...


class SameEverywhere:
    """What priors share that look at the sizes of clusters alone, in all blocks alike."""

    bits: int = 0
    by_block: bool = False

    def base(self, values: Floats) -> Floats:
        """No block has shares of its own."""
        return np.empty(0)

    def log_share(self, values: Floats) -> Floats:
        """There are none."""
        return np.empty(0)


def slice_step(
    start: float,
    log_density: Callable[[float], float],
    rng: np.random.Generator,
    width: float = 1.0,
) -> float:
    """One step of slice sampling with stepping out and shrinkage (Neal 2003)."""
    height = log_density(start) - rng.standard_exponential()
    left = start - width * rng.random()
    right = left + width
    while log_density(left) > height:
        left -= width
    while log_density(right) > height:
        right += width
    while True:
        proposal = left + (right - left) * rng.random()
        if log_density(proposal) > height:
            return proposal
        if proposal < start:
            left = proposal
        else:
            right = proposal
