"""Priors that learn nothing: uniform over labellings (the paper's), or over partitions."""

import math
from collections.abc import Sequence
from typing import Self

import numpy as np

from smered.layout import Bools, Floats, Int64s
from smered.priors.prior import unlimited

__all__ = ["UniformLabels", "UniformPartitions"]


class Fixed:
    """What priors share that learn nothing and do not look at the sizes of clusters: W = 1."""

    hyperparameters: tuple[str, ...] = ()

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other)

    def __hash__(self) -> int:
        return hash(type(self))

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    def start(self, records: int) -> Floats:
        """Nothing is learned."""
        return np.empty(0)

    def update(self, values: Floats, sizes: Int64s, rng: np.random.Generator) -> Floats:
        """Nothing is learned."""
        return values

    def log_size(self, largest: int, values: Floats) -> Floats:
        """W = 1."""
        return np.zeros(largest + 1)

    def for_files(self, files: Sequence[str], records: Int64s, single: Bools) -> Self:
        """The same for all files: conditioned on the partition being legal."""
        return self


class UniformLabels(Fixed):
    """Every legal labelling of n records with n labels is equally likely (the paper's prior).

    A partition into N clusters weighs n! / (n - N)!.
    """

    def condition(
        self, values: Floats, entities: int, block_sizes: Int64s, rng: np.random.Generator
    ) -> tuple[Floats, Int64s]:
        """Give each free label to a block with probability q proportional to its size."""
        records = int(block_sizes.sum())
        share = block_sizes / records
        # Blocks of one record never use a label: they share one draw.
        active = block_sizes > 1
        rest = 1.0 - share[active].sum()
        drawn = rng.multinomial(records - entities, np.append(share[active], max(rest, 0.0)))
        free = np.zeros(len(block_sizes), np.int64)
        free[active] = drawn[:-1]
        return -np.log(share), free

    def log_entities(self, values: Floats, entities: int, records: int) -> float:
        """Log n! / (n - N)!."""
        return math.lgamma(records + 1) - math.lgamma(records - entities + 1)


class UniformPartitions(Fixed):
    """Every legal partition is equally likely. It over-links data with many records."""

    def condition(
        self, values: Floats, entities: int, block_sizes: Int64s, rng: np.random.Generator
    ) -> tuple[Floats, Int64s]:
        """Blocks are independent already."""
        return unlimited(0.0, block_sizes)

    def log_entities(self, values: Floats, entities: int, records: int) -> float:
        """V = 1."""
        return 0.0
