"""Priors that learn nothing: uniform over labellings (the paper's), or over partitions."""

import math
from collections.abc import Sequence
from typing import Self

import numpy as np

from smered.layout import UNLIMITED, Bools, Floats, Int64s
from smered.priors.prior import KindCounts, Pooled, SameEverywhere

__all__ = ["UniformLabels", "UniformPartitions"]


class Fixed(SameEverywhere):
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

    def update(
        self, values: Floats, kinds: KindCounts, pooled: Pooled | None, rng: np.random.Generator
    ) -> Floats:
        """Nothing is learned."""
        return values

    def log_kind(self, largest: int, values: Floats) -> Floats:
        """W = 1."""
        return np.zeros((1, largest + 1))

    def for_files(self, files: Sequence[str], records: Int64s, single: Bools, blocks: int) -> Self:
        """The same for all files: conditioned on the partition being legal."""
        return self


class UniformLabels(Fixed):
    """Every legal labelling of n records with n labels is equally likely (the paper's prior).

    A partition into N clusters weighs n! / (n - N)!.
    """

    def condition(
        self, values: Floats, entities: int, records: int, rng: np.random.Generator
    ) -> tuple[float, int]:
        """Of n labels, n - N are free."""
        return 0.0, records - entities

    def log_entities(self, values: Floats, entities: int, records: int) -> float:
        """Log n! / (n - N)!."""
        return math.lgamma(records + 1) - math.lgamma(records - entities + 1)


class UniformPartitions(Fixed):
    """Every legal partition is equally likely. It over-links data with many records."""

    def condition(
        self, values: Floats, entities: int, records: int, rng: np.random.Generator
    ) -> tuple[float, int]:
        """Blocks are independent already."""
        return 0.0, UNLIMITED

    def log_entities(self, values: Floats, entities: int, records: int) -> float:
        """V = 1."""
        return 0.0
