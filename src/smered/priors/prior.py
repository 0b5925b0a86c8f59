"""What the sampler asks of a prior on the linkage, and what several priors share."""

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np

from smered.layout import Bools, Floats, Int64s

__all__ = ["Prior", "slice_step"]


class Prior(Protocol):
    """What the sampler asks of a prior. n records, N entities; `values` are hyperparameters."""

    @property
    def hyperparameters(self) -> tuple[str, ...]:
        """Names of the learned hyperparameters."""
        ...

    def start(self, records: int) -> Floats:
        """First values of the learned hyperparameters."""
        ...

    def update(self, values: Floats, sizes: Int64s, rng: np.random.Generator) -> Floats:
        """Draw the learned hyperparameters given how many clusters of each size there are."""
        ...

    def condition(
        self, values: Floats, entities: int, records: int, rng: np.random.Generator
    ) -> tuple[float, int]:
        """Make blocks independent: the log weight of a cluster, and the labels that are free.

        Free labels are shared out over blocks, if they are counted; else they are UNLIMITED.
        """
        ...

    def log_size(self, largest: int, values: Floats) -> Floats:
        """Log W for sizes 0 to `largest` (size 0 is never read)."""
        ...

    def log_entities(self, values: Floats, entities: int, records: int) -> float:
        """Log V[N], plus the log density of the learned hyperparameters."""
        ...

    def for_files(self, files: Sequence[str], records: Int64s, single: Bools) -> "Prior":
        """The prior for these files, given their records and which of them hold no duplicates."""
        ...


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
