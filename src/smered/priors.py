"""Priors on the linkage: a partition into N clusters weighs V[N] * prod over clusters W[size].

V couples the blocks. Each prior therefore says how to condition on an auxiliary draw, once per
sweep, given which blocks are independent (docs/mathematics.md, section 4). Kernels see nothing but
the resulting arrays, so a new prior needs no kernel code.

With learned hyperparameters the prior is joint: that of (hyperparameters, partition) without
restrictions, conditioned on the partition being legal. Its normalising constant does not depend on
the hyperparameters, which makes their update exact under any restriction.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from smered.errors import ConfigError
from smered.layout import UNLIMITED, Floats, Int64s

__all__ = ["Ewens", "PitmanYor", "Prior", "UniformLabels", "UniformPartitions"]


class Prior(Protocol):
    """What the sampler asks of a prior. n records, N entities; `values` are hyperparameters."""

    @property
    def hyperparameters(self) -> tuple[str, ...]:
        """Names of the learned hyperparameters."""
        ...

    def start(self, records: int) -> Floats:
        """First values of the learned hyperparameters."""
        ...

    def update(
        self, values: Floats, entities: int, records: int, rng: np.random.Generator
    ) -> Floats:
        """Draw the learned hyperparameters given the linkage."""
        ...

    def condition(
        self, values: Floats, entities: int, block_sizes: Int64s, rng: np.random.Generator
    ) -> tuple[Floats, Int64s]:
        """Make blocks independent: each block's log weight per cluster, and its free labels."""
        ...

    def log_size(self, largest: int, values: Floats) -> Floats:
        """Log W for sizes 0 to `largest` (size 0 is never read)."""
        ...

    def log_entities(self, values: Floats, entities: int, records: int) -> float:
        """Log V[N], plus the log density of the learned hyperparameters."""
        ...


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

    def update(
        self, values: Floats, entities: int, records: int, rng: np.random.Generator
    ) -> Floats:
        """Nothing is learned."""
        return values

    def log_size(self, largest: int, values: Floats) -> Floats:
        """W = 1."""
        return np.zeros(largest + 1)


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


@dataclass(frozen=True)
class PitmanYor:
    """The two-parameter Chinese restaurant process: V[N] = prod_{i<N} (c + i d) / (c)_n.

    `discount` d is fixed, in [0, 1). `concentration` c is fixed, or learned when None, with a
    Gamma(shape, rate) prior; `rate` None means 1 / n. W[s] = (1 - d)_{s-1}.
    """

    concentration: float | None = None
    discount: float = 0.5
    shape: float = 1.0
    rate: float | None = None

    def __post_init__(self) -> None:
        if self.concentration is not None and not 0 < self.concentration < math.inf:
            raise ConfigError(f"concentration = {self.concentration} must be a positive number")
        if not 0 <= self.discount < 1:
            raise ConfigError(f"discount = {self.discount} must be in [0, 1)")
        if not 0 < self.shape < math.inf:
            raise ConfigError(f"shape = {self.shape} must be a positive number")
        if self.rate is not None and not 0 < self.rate < math.inf:
            raise ConfigError(f"rate = {self.rate} must be a positive number")

    @property
    def hyperparameters(self) -> tuple[str, ...]:
        """The concentration, where it is learned."""
        return ("concentration",) if self.concentration is None else ()

    def start(self, records: int) -> Floats:
        """A concentration at which about half of the records are new entities."""
        return np.array([records / 2]) if self.concentration is None else np.empty(0)

    def update(
        self, values: Floats, entities: int, records: int, rng: np.random.Generator
    ) -> Floats:
        """Draw the concentration by one slice-sampling step on its logarithm."""
        if self.concentration is not None:
            return values

        def log_density(log_concentration: float) -> float:
            value = np.array([math.exp(log_concentration)])
            return self.log_entities(value, entities, records) + log_concentration

        drawn = slice_step(math.log(float(values[0])), log_density, rng)
        return np.array([math.exp(drawn)])

    def condition(
        self, values: Floats, entities: int, block_sizes: Int64s, rng: np.random.Generator
    ) -> tuple[Floats, Int64s]:
        """Given t ~ Gamma(c / d + N), each cluster weighs d * t; without discount it weighs c."""
        concentration = self._concentration(values)
        if self.discount == 0:
            return unlimited(math.log(concentration), block_sizes)
        t = rng.standard_gamma(concentration / self.discount + entities)
        return unlimited(math.log(self.discount * t), block_sizes)

    def log_size(self, largest: int, values: Floats) -> Floats:
        """Log (1 - d)_{s-1}, a rising factorial."""
        sizes = np.arange(1, largest, dtype=np.float64)
        return np.concatenate((np.zeros(2), np.cumsum(np.log(sizes - self.discount))))

    def log_entities(self, values: Floats, entities: int, records: int) -> float:
        """Log V[N], plus the Gamma density of a learned concentration."""
        c, d = self._concentration(values), self.discount
        if d == 0:
            log_v = entities * math.log(c)
        else:
            log_v = entities * math.log(d) + math.lgamma(c / d + entities) - math.lgamma(c / d)
        log_v += math.lgamma(c) - math.lgamma(c + records)
        if self.concentration is None:
            rate = 1 / records if self.rate is None else self.rate
            log_v += (self.shape - 1) * math.log(c) - rate * c
            log_v += self.shape * math.log(rate) - math.lgamma(self.shape)
        return log_v

    def _concentration(self, values: Floats) -> float:
        return float(values[0]) if self.concentration is None else self.concentration


class Ewens(PitmanYor):
    """The Chinese restaurant process (Dirichlet process): V[N] = c**N / (c)_n, W[s] = (s - 1)!.

    `concentration` c is fixed, or learned when None with a Gamma(shape, rate) prior; `rate` None
    means 1 / n.
    """

    def __init__(
        self,
        concentration: float | None = None,
        *,
        shape: float = 1.0,
        rate: float | None = None,
    ) -> None:
        super().__init__(concentration, 0.0, shape, rate)

    def __repr__(self) -> str:
        return f"Ewens(concentration={self.concentration}, shape={self.shape}, rate={self.rate})"


def unlimited(log_unit: float, block_sizes: Int64s) -> tuple[Floats, Int64s]:
    """The same weight per cluster in every block, and no count of labels."""
    blocks = len(block_sizes)
    return np.full(blocks, log_unit), np.full(blocks, UNLIMITED, np.int64)


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
