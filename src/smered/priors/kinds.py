"""The kinds of entities that a share is learned of: by their number of records, or by files."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from typing import Protocol

import numpy as np

from smered.layout import Bools, Floats, Int64s
from smered.priors.prior import slice_step

__all__ = ["LEAST_SHARE", "FilePatterns", "Kinds", "Sizes", "SizesInFiles"]

SIZES = 8  # from this size on, clusters share one learned number
PATTERN_MASS = 0.5  # Jeffreys' prior on the shares of patterns
LEAST_SHARE = 1e-300


class Kinds(Protocol):
    """Kinds of clusters; cluster of kind i has share min(i, K) - 1 of K shares."""

    @property
    def names(self) -> tuple[str, ...]:
        """Of the shares."""
        ...

    @property
    def mass(self) -> Floats:
        """Dirichlet hyperparameters of the shares (K,)."""
        ...

    @property
    def steps(self) -> Int64s:
        """What a record of each file adds to the kind of its cluster (k,)."""
        ...

    @property
    def others(self) -> tuple[str, ...]:
        """Names of what is learned besides shares."""
        ...

    def start(self) -> Floats:
        """First values of the others."""
        ...

    def update(self, values: Floats, kinds: Int64s, rng: np.random.Generator) -> Floats:
        """Draw the others given how many clusters of each kind there are."""
        ...

    def log_ways(self, largest: int, values: Floats) -> Floats:
        """Log W of each kind, up to `largest` records, but for its share."""
        ...

    def log_density(self, values: Floats) -> float:
        """Log density of the others, with what they weigh whatever the linkage is."""
        ...


class NoOthers:
    """What kinds have in common of which shares alone are learned."""

    others: tuple[str, ...] = ()

    def start(self) -> Floats:
        """Nothing else is learned."""
        return np.empty(0)

    def update(self, values: Floats, kinds: Int64s, rng: np.random.Generator) -> Floats:
        """Nothing else is learned."""
        return values

    def log_density(self, values: Floats) -> float:
        """Nothing else is learned."""
        return 0.0


def halving(sizes: int, strength: float) -> Floats:
    """A distribution that halves from each size to the next; the last has what all beyond had."""
    halves: Floats = 0.5 ** np.arange(1, sizes + 1, dtype=np.float64)
    halves[-1] *= 2.0
    return strength * halves


def log_tail(shares: int, sizes: Int64s, most: float) -> Floats:
    """Log share of single sizes among those that share one: it halves on from there to `most`."""
    if most == shares:
        return np.zeros(len(sizes))
    steps = np.maximum(sizes - shares + 1, 0)
    cut = math.log1p(-(0.5 ** (most - shares + 1)))  # nothing lies beyond
    found: Floats = -steps * math.log(2.0) - np.where(steps > 0, cut, 0.0)
    return found


def size_names(shares: int, most: float) -> tuple[str, ...]:
    """Names of the shares of sizes."""
    names = [f"size {size}" for size in range(1, shares + 1)]
    if most > shares:
        names[-1] += " or more"
    return tuple(names)


@lru_cache(maxsize=4)
def log_factorials(largest: int) -> Floats:
    """Logs of 0! to `largest`!."""
    return np.concatenate(([0.0], np.cumsum(np.log(np.arange(1, largest + 1)))))


@dataclass(frozen=True)
class Sizes(NoOthers):
    """Entities by their number of records: W[s] = s! m_s."""

    strength: float
    files: int

    @property
    def names(self) -> tuple[str, ...]:
        """Sizes up to SIZES, and all above."""
        return size_names(SIZES, math.inf)

    @property
    def mass(self) -> Floats:
        """Halving from each size to the next."""
        return halving(SIZES, self.strength)

    @property
    def steps(self) -> Int64s:
        """Every record counts once."""
        return np.ones(self.files, np.int64)

    def log_ways(self, largest: int, values: Floats) -> Floats:
        """Log s!, and the share of a size among those that share one."""
        sizes = np.arange(1, largest + 1)
        return np.concatenate(([0.0], np.cumsum(np.log(sizes)) + log_tail(SIZES, sizes, math.inf)))


@dataclass(frozen=True)
class SizesInFiles:
    """Entities by their number of records, where files hold nobody twice (equations 20 and 21).

    An entity has s records with probability m_s. Which files they are in is drawn next: counts c
    with probability proportional to prod over files of o_f**c_f / c_f!, where files without
    duplicates have at most one. Records are numbered at random within their files. So
    W[s] = m_s / G_s, with G_s the coefficient of t**s in prod over files without duplicates of
    (1 + o_f t) times exp(t times the o_f of the others); what the files weigh is the same for all
    linkages. o ~ Dirichlet(1, ..., 1) is learned.
    """

    strength: float
    files: tuple[str, ...]
    records: Int64s  # (k,) of each file
    single: Bools  # (k,) files without duplicates

    @property
    def most(self) -> float:
        """Records that a cluster can hold."""
        return len(self.files) if self.single.all() else math.inf

    @property
    def shares(self) -> int:
        """Sizes with a share of their own; the last stands for larger ones too, if there can be."""
        return int(min(self.most, SIZES))

    @property
    def names(self) -> tuple[str, ...]:
        """Sizes that there can be."""
        return size_names(self.shares, self.most)

    @property
    def mass(self) -> Floats:
        """Halving from each size to the next."""
        return halving(self.shares, self.strength)

    @property
    def steps(self) -> Int64s:
        """Every record counts once."""
        return np.ones(len(self.files), np.int64)

    @property
    def others(self) -> tuple[str, ...]:
        """The weight of each file."""
        return tuple(f"weight of {file}" for file in self.files)

    def start(self) -> Floats:
        """Files weigh as they have records."""
        weights: Floats = self.records / self.records.sum()
        return weights

    def update(self, values: Floats, kinds: Int64s, rng: np.random.Generator) -> Floats:
        """Draw each file's weight by slice sampling.

        Only ratios of weights matter: with a scale drawn from its Gamma distribution they are
        independent exponentials before the data.
        """
        weight = values * rng.standard_gamma(len(self.files))
        present = np.flatnonzero(kinds)
        for file in range(len(self.files)):

            def log_density(x: float, file: int = file) -> float:
                weight[file] = math.exp(x)
                ways = float(kinds[present] @ self._log_placings(weight, present))
                return float(self.records[file] + 1) * x - weight[file] - ways

            # about four standard deviations wide: few steps out, few back
            width = 4.0 / math.sqrt(self.records[file] + 1.0)
            chosen = slice_step(math.log(weight[file]), log_density, rng, width)
            weight[file] = max(math.exp(chosen), LEAST_SHARE)
        drawn: Floats = weight / weight.sum()
        return drawn

    def log_ways(self, largest: int, values: Floats) -> Floats:
        """Log of 1 / G_s, and the share of a size among those that share one; -inf if none."""
        sizes = np.arange(1, int(min(largest, self.most)) + 1)
        found = np.full(largest + 1, -np.inf)
        found[sizes] = log_tail(self.shares, sizes, self.most)
        found[sizes] -= self._log_placings(self._scaled(values), sizes)
        return found

    def log_density(self, values: Floats) -> float:
        """What the files weigh, and the Dirichlet density of their weights."""
        files = float(self.records @ np.log(self._scaled(values)))
        return math.lgamma(len(self.files)) + files

    def _scaled(self, values: Floats) -> Floats:
        """Weights of files whose mean is 1, so that no product of them is too small or large."""
        weight: Floats = values * len(self.files)
        return weight

    def _log_placings(self, weight: Floats, sizes: Int64s) -> Floats:
        """Log G_s of some sizes."""
        alone = weight[self.single]
        chosen = np.zeros(len(alone) + 1)  # coefficients of prod of (1 + o t)
        chosen[0] = 1.0
        for i, each in enumerate(alone.tolist(), 1):
            chosen[1 : i + 1] += each * chosen[:i]
        others = float(weight[~self.single].sum())
        if self.most < math.inf:
            found: Floats = np.log(chosen[sizes])
            return found
        rest = sizes[:, None] - np.arange(len(chosen))
        factorial = log_factorials(int(sizes[-1]))[np.maximum(rest, 0)]
        terms = np.where(rest >= 0, np.log(chosen) + rest * math.log(others) - factorial, -np.inf)
        top = terms.max(axis=1)
        return top + np.log(np.exp(terms - top[:, None]).sum(axis=1))


@dataclass(frozen=True)
class FilePatterns(NoOthers):
    """Entities by the files that hold them, none of them twice (equation 22)."""

    files: tuple[str, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The files of each pattern, in the order of their numbers: file i stands for 2**i."""
        patterns = [
            (sum(2**i for i in chosen), " + ".join(self.files[i] for i in chosen))
            for size in range(1, len(self.files) + 1)
            for chosen in combinations(range(len(self.files)), size)
        ]
        return tuple(f"in {name}" for _, name in sorted(patterns))

    @property
    def mass(self) -> Floats:
        """Every pattern alike."""
        return np.full(2 ** len(self.files) - 1, PATTERN_MASS)

    @property
    def steps(self) -> Int64s:
        """A bit for each file."""
        return 2 ** np.arange(len(self.files), dtype=np.int64)

    def log_ways(self, largest: int, values: Floats) -> Floats:
        """Nothing but shares."""
        return np.zeros(2 ** len(self.files))


def log_dirichlet(mass: Sequence[float] | Floats, shares: Floats) -> float:
    """Log density before the data of the logarithms of shares.

    That of shares themselves is endless where one is nearly nothing, as that of a size which no
    cluster has: it would hide all else in the trace of the log posterior.
    """
    mass = np.asarray(mass)
    density = float((mass * np.log(shares)).sum()) + math.lgamma(mass.sum())
    return density - sum(map(math.lgamma, mass.tolist()))
