"""Clusters whose sizes are drawn from a distribution that is learned."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from smered.errors import ConfigError
from smered.layout import UNLIMITED, Bools, Floats, Int64s
from smered.priors.prior import Prior, slice_step

__all__ = ["ClusterSizes", "SizesInFiles"]

SIZES = 8  # from this size on, clusters share one learned number
LEAST_SHARE = 1e-300


def halving(sizes: int, strength: float) -> Floats:
    """A distribution that halves from each size to the next; the last has what all beyond had."""
    halves: Floats = 0.5 ** np.arange(1, sizes + 1, dtype=np.float64)
    halves[-1] *= 2.0
    return strength * halves


def draw_shares(base: Floats, sizes: Int64s, rng: np.random.Generator) -> Floats:
    """Draw the shares of sizes: Dirichlet given how many clusters of each size there are."""
    number = np.minimum(np.arange(len(sizes)), len(base))
    counts = np.bincount(number, sizes, minlength=len(base) + 1)[1:]
    drawn = np.maximum(rng.standard_gamma(base + counts), LEAST_SHARE)
    shares: Floats = drawn / drawn.sum()
    return shares


def log_dirichlet(base: Floats, shares: Floats) -> float:
    """Log density before the data of the logarithms of shares.

    That of shares themselves is endless where one is nearly nothing, as that of a size which no
    cluster has: it would hide all else in the trace of the log posterior.
    """
    density = float((base * np.log(shares)).sum()) + math.lgamma(base.sum())
    return density - sum(map(math.lgamma, base))


def log_shares(shares: Floats, sizes: Int64s, most: float) -> Floats:
    """Log shares of single sizes; the last is that of all from there to `most`, halving on."""
    found: Floats = np.log(shares)[np.minimum(sizes, len(shares)) - 1]
    if most == len(shares):
        return found
    steps = np.maximum(sizes - len(shares) + 1, 0)
    cut = math.log1p(-(0.5 ** (most - len(shares) + 1)))  # nothing lies beyond
    return found - steps * math.log(2.0) - np.where(steps > 0, cut, 0.0)


@lru_cache(maxsize=4)
def log_factorials(largest: int) -> Floats:
    """Logs of 0! to `largest`!."""
    return np.concatenate(([0.0], np.cumsum(np.log(np.arange(1, largest + 1)))))


class DrawnSizes:
    """What priors share whose clusters are drawn one by one: V[N] = N!."""

    def condition(
        self, values: Floats, entities: int, records: int, rng: np.random.Generator
    ) -> tuple[float, int]:
        """Given t ~ Gamma(N + 1), each cluster weighs t."""
        return math.log(rng.standard_gamma(entities + 1.0)), UNLIMITED


@dataclass(frozen=True)
class ClusterSizes(DrawnSizes):
    """Clusters whose sizes are drawn independently from a distribution m that is learned.

    V[N] = N!, W[s] = s! m_s: records fall into clusters whose sizes were drawn one by one from m
    until they hold all n (Betancourt, Zanella and Steorts 2020). m ~ Dirichlet(`strength` times a
    distribution that halves from each size to the next), with the sizes above 8 taken together,
    halving on. Suited to many small clusters: what it learns of pairs says nothing about triples.
    With `files`, it is also drawn which files hold an entity, where some hold no duplicates, and
    learned how much each file covers: see `SizesInFiles`. Without, partitions are conditioned on
    being legal, which makes links less likely.
    """

    strength: float = 1.0
    files: bool = False

    def __post_init__(self) -> None:
        if not 0 < self.strength < math.inf:
            raise ConfigError(f"strength = {self.strength} must be a positive number")

    @property
    def hyperparameters(self) -> tuple[str, ...]:
        """The share of each size."""
        return (*(f"size {size}" for size in range(1, SIZES)), f"size {SIZES} or more")

    @property
    def _base(self) -> Floats:
        return halving(SIZES, self.strength)

    def for_files(self, files: Sequence[str], records: Int64s, single: Bools) -> Prior:
        """Which files hold an entity is drawn too, where some hold no duplicates."""
        if not self.files or not single.any():
            return self
        return SizesInFiles(self.strength, tuple(files), records, single)

    def start(self, records: int) -> Floats:
        """The expected shares."""
        shares: Floats = self._base / self._base.sum()
        return shares

    def update(self, values: Floats, sizes: Int64s, rng: np.random.Generator) -> Floats:
        """Draw the shares: Dirichlet given the number of clusters of each size."""
        return draw_shares(self._base, sizes, rng)

    def log_size(self, largest: int, values: Floats) -> Floats:
        """Log s! m_s."""
        sizes = np.arange(1, largest + 1)
        share = log_shares(values, sizes, math.inf)
        found: Floats = np.concatenate((np.zeros(1), np.cumsum(np.log(sizes)) + share))
        return found

    def log_entities(self, values: Floats, entities: int, records: int) -> float:
        """Log N!, plus the Dirichlet density of the shares."""
        return math.lgamma(entities + 1) + log_dirichlet(self._base, values)


@dataclass(frozen=True)
class SizesInFiles(DrawnSizes):
    """Cluster sizes that are learned, and files that hold nobody twice (equations 20 and 21).

    An entity has s records with probability m_s. Which files they are in is drawn next: counts c
    with probability proportional to prod over files of o_f**c_f / c_f!, where files without
    duplicates have at most one. Records are numbered at random within their files. So V[N] = N!,
    W[s] = m_s / G_s, with G_s the coefficient of t**s in prod over files without duplicates of
    (1 + o_f t) times exp(t times the o_f of the others); what the files weigh is the same for all
    linkages. m is as in `ClusterSizes`, over the sizes there can be; o ~ Dirichlet(1, ..., 1).
    """

    strength: float
    files: tuple[str, ...]
    records: Int64s  # (k,) of each file
    single: Bools  # (k,) files without duplicates

    @property
    def _most(self) -> float:
        """Records that a cluster can hold."""
        return len(self.files) if self.single.all() else math.inf

    @property
    def _sizes(self) -> int:
        """Sizes with a share of their own; the last stands for larger ones too, if there can be."""
        return int(min(self._most, SIZES))

    @property
    def hyperparameters(self) -> tuple[str, ...]:
        """The share of each size, and the weight of each file."""
        names = [f"size {size}" for size in range(1, self._sizes + 1)]
        if self._most > self._sizes:
            names[-1] += " or more"
        return (*names, *(f"weight of {file}" for file in self.files))

    @property
    def _base(self) -> Floats:
        return halving(self._sizes, self.strength)

    def for_files(self, files: Sequence[str], records: Int64s, single: Bools) -> Prior:
        """Made for its files already."""
        return self

    def start(self, records: int) -> Floats:
        """The expected shares; files weigh as they have records."""
        base: Floats = self._base
        return np.concatenate((base / base.sum(), self.records / self.records.sum()))

    def update(self, values: Floats, sizes: Int64s, rng: np.random.Generator) -> Floats:
        """Draw the shares (Dirichlet given the sizes), then each file's weight (slice sampling).

        Only ratios of weights matter: with a scale drawn from its Gamma distribution they are
        independent exponentials before the data.
        """
        shares = draw_shares(self._base, sizes, rng)
        weight = values[self._sizes :] * rng.standard_gamma(len(self.files))
        present = np.flatnonzero(sizes)
        for file in range(len(self.files)):

            def log_density(x: float, file: int = file) -> float:
                weight[file] = math.exp(x)
                ways = float(sizes[present] @ self._log_ways(weight, present))
                return float(self.records[file] + 1) * x - weight[file] - ways

            # about four standard deviations wide: few steps out, few back
            width = 4.0 / math.sqrt(self.records[file] + 1.0)
            chosen = slice_step(math.log(weight[file]), log_density, rng, width)
            weight[file] = max(math.exp(chosen), LEAST_SHARE)
        return np.concatenate((shares, weight / weight.sum()))

    def log_size(self, largest: int, values: Floats) -> Floats:
        """Log m_s / G_s; nothing for sizes that cannot be."""
        sizes = np.arange(1, int(min(largest, self._most)) + 1)
        share = log_shares(values[: self._sizes], sizes, self._most)
        found = np.full(largest + 1, -np.inf)
        found[sizes] = share - self._log_ways(self._scaled(values), sizes)
        return found

    def log_entities(self, values: Floats, entities: int, records: int) -> float:
        """Log N!, what the files weigh, and the Dirichlet densities."""
        density = log_dirichlet(self._base, values[: self._sizes]) + math.lgamma(len(self.files))
        files = float(self.records @ np.log(self._scaled(values)))
        return math.lgamma(entities + 1) + density + files

    def _scaled(self, values: Floats) -> Floats:
        """Weights of files whose mean is 1, so that no product of them is too small or large."""
        weight: Floats = values[self._sizes :] * len(self.files)
        return weight

    def _log_ways(self, weight: Floats, sizes: Int64s) -> Floats:
        """Log G_s of some sizes."""
        alone = weight[self.single]
        chosen = np.zeros(len(alone) + 1)  # coefficients of prod of (1 + o t)
        chosen[0] = 1.0
        for i, each in enumerate(alone.tolist(), 1):
            chosen[1 : i + 1] += each * chosen[:i]
        others = float(weight[~self.single].sum())
        if self._most < math.inf:
            found: Floats = np.log(chosen[sizes])
            return found
        rest = sizes[:, None] - np.arange(len(chosen))
        factorial = log_factorials(int(sizes[-1]))[np.maximum(rest, 0)]
        terms = np.where(rest >= 0, np.log(chosen) + rest * math.log(others) - factorial, -np.inf)
        top = terms.max(axis=1)
        return top + np.log(np.exp(terms - top[:, None]).sum(axis=1))
