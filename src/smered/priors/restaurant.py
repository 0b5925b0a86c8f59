"""Chinese restaurant processes: Pitman and Yor's, and the one-parameter one of Ewens."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from smered.errors import ConfigError
from smered.layout import UNLIMITED, Bools, Floats, Int64s
from smered.priors.prior import KindCounts, Pooled, SameEverywhere, slice_step

__all__ = ["Ewens", "PitmanYor"]


@dataclass(frozen=True)
class PitmanYor(SameEverywhere):
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

    def update(
        self, values: Floats, kinds: KindCounts, pooled: Pooled | None, rng: np.random.Generator
    ) -> Floats:
        """Draw each by a slice-sampling step: log concentration, log odds of the discount."""
        sizes = kinds.numbers[0]
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
                log_sizes = float(self.log_kind(len(sizes) - 1, value)[0] @ sizes)
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
        self, values: Floats, entities: int, records: int, rng: np.random.Generator
    ) -> tuple[float, int]:
        """Given t ~ Gamma(c / d + N), each cluster weighs d * t; without discount it weighs c."""
        concentration, discount = self._fixed(values)
        if discount == 0:
            return math.log(concentration), UNLIMITED
        t = rng.standard_gamma(concentration / discount + entities)
        return math.log(discount * t), UNLIMITED

    def log_kind(self, largest: int, values: Floats) -> Floats:
        """Log (1 - d)_{s-1}, a rising factorial."""
        sizes = np.arange(1, largest, dtype=np.float64)
        discount = self._fixed(values)[1]
        found = np.concatenate((np.zeros(2), np.cumsum(np.log(sizes - discount))))
        return found[None, : largest + 1]

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

    def for_files(self, files: Sequence[str], records: Int64s, single: Bools, blocks: int) -> Self:
        """The same for all files: conditioned on the partition being legal."""
        return self


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
