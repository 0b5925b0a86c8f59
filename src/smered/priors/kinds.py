"""The kinds of entities that a share is learned of: by their number of records, or by files."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from typing import Protocol

import numpy as np

from smered.layout import Bools, Floats, Int64s
from smered.priors.prior import KindCounts, slice_step

__all__ = ["LEAST_SHARE", "FilePatterns", "Kinds", "Sizes", "SizesInFiles", "kind_bits"]
__all__ += ["log_dirichlet"]

SIZES = 8  # from this size on, clusters share one learned number
PATTERN_MASS = 0.5  # Jeffreys' prior on the shares of patterns
LEAST_SHARE = 1e-300
BITS = 62


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
    def bits(self) -> int:
        """Bits of a kind for the records of each file; 0 where kinds are sizes."""
        ...

    @property
    def others(self) -> tuple[str, ...]:
        """Names of what is learned besides shares."""
        ...

    def start(self) -> Floats:
        """First values of the others."""
        ...

    def update(self, values: Floats, kinds: KindCounts, rng: np.random.Generator) -> Floats:
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

    def update(self, values: Floats, kinds: KindCounts, rng: np.random.Generator) -> Floats:
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
    bits: int = 0

    @property
    def names(self) -> tuple[str, ...]:
        """Sizes up to SIZES, and all above."""
        return size_names(SIZES, math.inf)

    @property
    def mass(self) -> Floats:
        """Halving from each size to the next."""
        return halving(SIZES, self.strength)

    def log_ways(self, largest: int, values: Floats) -> Floats:
        """Log s!, and the share of a size among those that share one."""
        sizes = np.arange(1, largest + 1)
        ways = np.cumsum(np.log(sizes)) + log_tail(SIZES, sizes, math.inf)
        return np.concatenate(([0.0], ways))[None]


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
    bits: int = 0

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
    def others(self) -> tuple[str, ...]:
        """The weight of each file."""
        return tuple(f"weight of {file}" for file in self.files)

    def start(self) -> Floats:
        """Files weigh as they have records."""
        weights: Floats = self.records / self.records.sum()
        return weights

    def update(self, values: Floats, kinds: KindCounts, rng: np.random.Generator) -> Floats:
        """Draw each file's weight by slice sampling.

        Only ratios of weights matter: with a scale drawn from its Gamma distribution they are
        independent exponentials before the data.
        """
        weight = values * rng.standard_gamma(len(self.files))
        sizes = kinds.numbers[0]
        present = np.flatnonzero(sizes)
        for file in range(len(self.files)):

            def log_density(x: float, file: int = file) -> float:
                weight[file] = math.exp(x)
                ways = float(sizes[present] @ self._log_placings(weight, present))
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
        return found[None]

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
class FilePatterns:
    """Entities by the files that hold them, and by how often each file does (equation 22).

    Files without duplicates hold an entity once. The others hold it c times with probability q_fc,
    q_f ~ Dirichlet around a distribution that halves from each number to the next.
    """

    strength: float
    files: tuple[str, ...]
    single: Bools  # (k,) files without duplicates

    @property
    def bits(self) -> int:
        """As many as there are for each of the files."""
        return kind_bits(len(self.files))

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
    def repeating(self) -> Int64s:
        """Files that may hold an entity several times."""
        return np.flatnonzero(~self.single)

    @property
    def others(self) -> tuple[str, ...]:
        """How often each of these files holds an entity that it holds."""
        names = size_names(SIZES, math.inf)
        if len(self.files) == 1:
            return names if len(self.repeating) else ()
        return tuple(f"{self.files[i]}: {name}" for i in self.repeating for name in names)

    def start(self) -> Floats:
        """The expected shares."""
        mass = halving(SIZES, self.strength)
        return np.tile(mass / mass.sum(), len(self.repeating))

    def update(self, values: Floats, kinds: KindCounts, rng: np.random.Generator) -> Floats:
        """Draw how often each file holds an entity: Dirichlet given how often it does."""
        mass, drawn = halving(SIZES, self.strength), [np.empty(0)]
        for file in self.repeating:
            numbers = kinds.numbers[file]
            share = np.minimum(np.arange(len(numbers)), SIZES)
            counts = np.bincount(share, numbers, minlength=SIZES + 1)[1:]
            found = np.maximum(rng.standard_gamma(mass + counts), LEAST_SHARE)
            drawn.append(found / found.sum())
        return np.concatenate(drawn)

    def log_ways(self, largest: int, values: Floats) -> Floats:
        """Log q_fc c!, 0 for files that hold an entity at most once."""
        found = np.zeros((len(self.files), largest + 1))
        numbers = np.arange(1, largest + 1)
        ways = np.cumsum(np.log(numbers)) + log_tail(SIZES, numbers, math.inf)
        for row, file in enumerate(self.repeating):
            share = np.log(values[row * SIZES : (row + 1) * SIZES])
            found[file, 1:] = ways + share[np.minimum(numbers, SIZES) - 1]
        return found

    def log_density(self, values: Floats) -> float:
        """The Dirichlet densities."""
        mass = halving(SIZES, self.strength)
        return sum(log_dirichlet(mass, q) for q in values.reshape(-1, SIZES))


def kind_bits(files: int) -> int:
    """Bits of a kind, of 62, for the records of each file."""
    return BITS // files


def log_dirichlet(mass: Sequence[float] | Floats, shares: Floats) -> float:
    """Log density before the data of the logarithms of shares.

    That of shares themselves is endless where one is nearly nothing, as that of a size which no
    cluster has: it would hide all else in the trace of the log posterior.
    """
    mass = np.asarray(mass)
    density = float((mass * np.log(shares)).sum()) + math.lgamma(mass.sum())
    return density - sum(map(math.lgamma, mass.tolist()))
