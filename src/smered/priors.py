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

__all__ = ["ClusterSizes", "Ewens", "PitmanYor", "Prior", "UniformLabels", "UniformPartitions"]

SIZES = 8  # from this size on, clusters share one learned number
LEAST_SHARE = 1e-300


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

    def update(self, values: Floats, sizes: Int64s, rng: np.random.Generator) -> Floats:
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

    `discount` d is fixed, in [0, 1), or learned when None, with a uniform prior. `concentration` c
    is fixed, or learned when None, with a Gamma(shape, rate) prior; `rate` None means 1 / n.
    W[s] = (1 - d)_{s-1}.
    """

    concentration: float | None = None
    discount: float | None = 0.5
    shape: float = 1.0
    rate: float | None = None

    def __post_init__(self) -> None:
        if self.concentration is not None and not 0 < self.concentration < math.inf:
            raise ConfigError(f"concentration = {self.concentration} must be a positive number")
        if self.discount is not None and not 0 <= self.discount < 1:
            raise ConfigError(f"discount = {self.discount} must be in [0, 1)")
        if not 0 < self.shape < math.inf:
            raise ConfigError(f"shape = {self.shape} must be a positive number")
        if self.rate is not None and not 0 < self.rate < math.inf:
            raise ConfigError(f"rate = {self.rate} must be a positive number")

    @property
    def hyperparameters(self) -> tuple[str, ...]:
        """The concentration and the discount, where they are learned."""
        learned = {"concentration": self.concentration, "discount": self.discount}
        return tuple(name for name, value in learned.items() if value is None)

    def start(self, records: int) -> Floats:
        """A concentration at which about half of the records are new entities."""
        first = {"concentration": records / 2, "discount": 0.5}
        return np.array([first[name] for name in self.hyperparameters])

    def update(self, values: Floats, sizes: Int64s, rng: np.random.Generator) -> Floats:
        """Draw each by a slice-sampling step: log concentration, log odds of the discount."""
        entities, records = int(sizes.sum()), int(np.arange(len(sizes)) @ sizes)
        drawn = values.copy()
        for i, name in enumerate(self.hyperparameters):

            def log_density(x: float, i: int = i, name: str = name) -> float:
                value = drawn.copy()
                value[i] = math.exp(x) if name == "concentration" else 1 / (1 + math.exp(-x))
                if name == "concentration":
                    return self.log_entities(value, entities, records) + x
                if not 0 < value[i] < 1:
                    return -math.inf
                log_sizes = float(self.log_size(len(sizes) - 1, value) @ sizes)
                jacobian = math.log(value[i]) + math.log1p(-value[i])
                return self.log_entities(value, entities, records) + log_sizes + jacobian

            now = float(drawn[i])
            if name == "concentration":
                drawn[i] = math.exp(slice_step(math.log(now), log_density, rng))
            else:
                odds = slice_step(math.log(now) - math.log1p(-now), log_density, rng)
                drawn[i] = 1 / (1 + math.exp(-odds))
        return drawn

    def condition(
        self, values: Floats, entities: int, block_sizes: Int64s, rng: np.random.Generator
    ) -> tuple[Floats, Int64s]:
        """Given t ~ Gamma(c / d + N), each cluster weighs d * t; without discount it weighs c."""
        concentration, discount = self._fixed(values)
        if discount == 0:
            return unlimited(math.log(concentration), block_sizes)
        t = rng.standard_gamma(concentration / discount + entities)
        return unlimited(math.log(discount * t), block_sizes)

    def log_size(self, largest: int, values: Floats) -> Floats:
        """Log (1 - d)_{s-1}, a rising factorial."""
        sizes = np.arange(1, largest, dtype=np.float64)
        discount = self._fixed(values)[1]
        return np.concatenate((np.zeros(2), np.cumsum(np.log(sizes - discount))))[: largest + 1]

    def log_entities(self, values: Floats, entities: int, records: int) -> float:
        """Log V[N], plus the Gamma density of a learned concentration."""
        c, d = self._fixed(values)
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

    def _fixed(self, values: Floats) -> tuple[float, float]:
        """Concentration and discount, as given or as learned."""
        concentration, discount = self.concentration, self.discount
        if concentration is None:
            concentration = float(values[0])
        if discount is None:
            discount = float(values[-1])
        return concentration, discount


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


@dataclass(frozen=True)
class ClusterSizes:
    """Clusters whose sizes are drawn independently from a distribution m that is learned.

    V[N] = N!, W[s] = s! m_s: records fall into clusters whose sizes were drawn one by one from m
    until they hold all n (Betancourt, Zanella and Steorts 2020). m ~ Dirichlet(`strength` times a
    distribution that halves from each size to the next), with the sizes above 8 taken together,
    halving on. Suited to many small clusters: what it learns of pairs says nothing about triples.
    """

    strength: float = 1.0

    def __post_init__(self) -> None:
        if not 0 < self.strength < math.inf:
            raise ConfigError(f"strength = {self.strength} must be a positive number")

    @property
    def hyperparameters(self) -> tuple[str, ...]:
        """The share of each size."""
        return (*(f"size {size}" for size in range(1, SIZES)), f"size {SIZES} or more")

    @property
    def _base(self) -> Floats:
        halves: Floats = 0.5 ** np.arange(1, SIZES + 1, dtype=np.float64)
        halves[-1] *= 2.0  # with all larger sizes
        return self.strength * halves

    def start(self, records: int) -> Floats:
        """The expected shares."""
        shares: Floats = self._base / self._base.sum()
        return shares

    def update(self, values: Floats, sizes: Int64s, rng: np.random.Generator) -> Floats:
        """Draw the shares: Dirichlet given the number of clusters of each size."""
        counts = np.zeros(SIZES)
        some = sizes[1 : SIZES + 1]
        counts[: len(some)] = some
        counts[-1] += sizes[SIZES + 1 :].sum()
        drawn = np.maximum(rng.standard_gamma(self._base + counts), LEAST_SHARE)
        shares: Floats = drawn / drawn.sum()
        return shares

    def condition(
        self, values: Floats, entities: int, block_sizes: Int64s, rng: np.random.Generator
    ) -> tuple[Floats, Int64s]:
        """Given t ~ Gamma(N + 1), each cluster weighs t."""
        return unlimited(math.log(rng.standard_gamma(entities + 1.0)), block_sizes)

    def log_size(self, largest: int, values: Floats) -> Floats:
        """Log s! m_s."""
        sizes = np.arange(1, largest + 1, dtype=np.float64)
        beyond = np.maximum(sizes - SIZES, 0.0)
        share = np.log(values)[np.minimum(sizes, SIZES).astype(np.int64) - 1]
        share = share - np.where(sizes >= SIZES, (beyond + 1.0) * math.log(2.0), 0.0)
        found: Floats = np.concatenate((np.zeros(1), np.cumsum(np.log(sizes)) + share))
        return found

    def log_entities(self, values: Floats, entities: int, records: int) -> float:
        """Log N!, plus the Dirichlet density of the shares."""
        base = self._base
        density = float(((base - 1.0) * np.log(values)).sum()) + math.lgamma(base.sum())
        return math.lgamma(entities + 1) + density - sum(map(math.lgamma, base))


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
