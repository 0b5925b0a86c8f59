"""Entities whose kinds have shares that are learned, in all blocks together or in each."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from smered.errors import ConfigError
from smered.layout import UNLIMITED, Bools, Floats, Int64s
from smered.priors.kinds import (
    LEAST_SHARE,
    FilePatterns,
    Kinds,
    Sizes,
    SizesInFiles,
    kind_bits,
    log_dirichlet,
)
from smered.priors.prior import KindCounts, Pooled, Prior, SameEverywhere
from smered.sums import as_floats

__all__ = ["ClusterSizes", "SharesByBlock", "SharesOfAll"]

MOST_FILES = 5  # every pattern of so many files has a share of its own
FIRST_POOLING = 10.0
POOLING_SHAPE, POOLING_RATE = 1.0, 0.05  # blocks share about as much as twenty entities tell


@dataclass(frozen=True)
class ClusterSizes:
    """Learned shares of which files hold an entity, and how many records each has of it.

    Entities are drawn one by one, each of a kind, until the records are used up (Betancourt,
    Zanella and Steorts 2020). The kind is the set of files that hold the entity, each file then has
    one record of it, or, where duplicates are allowed, a number whose shares are learned: what is
    learned of pairs says nothing about triples. With more than five files the kind is the number of
    records, and weights of files without duplicates are learned.

    With `blocks`, each block has its own number of entities and its own shares, drawn around common
    ones as closely as the blocks are alike: agreeing on a block is evidence. Without, blocks only
    rule links out. Without `files`, kinds are sizes, and partitions are conditioned on being legal,
    which makes links less likely. `strength` is the prior mass of shares of numbers, Dirichlet
    around a distribution that halves from each to the next; sets of files have Jeffreys' prior.
    """

    strength: float = 1.0
    files: bool = True
    blocks: bool = True

    def __post_init__(self) -> None:
        if not 0 < self.strength < math.inf:
            raise ConfigError(f"strength = {self.strength} must be a positive number")

    def for_files(self, files: Sequence[str], records: Int64s, single: Bools, blocks: int) -> Prior:
        """Shares of what can be told of these files, in each of several blocks or in all."""
        kinds: Kinds = Sizes(self.strength)
        few = len(files) <= MOST_FILES and records.max(initial=0) < 2 ** kind_bits(len(files))
        if self.files and few:
            kinds = FilePatterns(self.strength, tuple(files), single)
        elif self.files and single.any():
            kinds = SizesInFiles(self.strength, tuple(files), records, single)
        if blocks == 1:
            return SharesOfOne(kinds)
        return SharesByBlock(kinds) if self.blocks else SharesOfAll(kinds)


class LearnedShares(SameEverywhere):
    """What both have in common: hyperparameters are shares, then `own`, then those of the kinds."""

    own: tuple[str, ...] = ()

    def __init__(self, kinds: Kinds) -> None:
        self.kinds = kinds
        self.bits = kinds.bits

    @property
    def hyperparameters(self) -> tuple[str, ...]:
        """The share of each kind, and what else is learned."""
        return (*self.kinds.names, *self.own, *self.kinds.others)

    def start(self, records: int) -> Floats:
        """The expected shares."""
        mass = self.kinds.mass
        return np.concatenate((mass / mass.sum(), self._first_own(), self.kinds.start()))

    def _first_own(self) -> Floats:
        return np.empty(0)

    def _split(self, values: Floats) -> tuple[Floats, Floats, Floats]:
        """Shares, own and other hyperparameters."""
        shares = len(self.kinds.mass)
        rest = shares + len(self.own)
        return values[:shares], values[shares:rest], values[rest:]

    def log_kind(self, largest: int, values: Floats) -> Floats:
        """Log W of each kind, shares left out."""
        return self.kinds.log_ways(largest, self._split(values)[2])

    def update(
        self, values: Floats, kinds: KindCounts, pooled: Pooled | None, rng: np.random.Generator
    ) -> Floats:
        """Draw the shares: Dirichlet given the clusters of each kind; then the others."""
        mass, (_, _, others) = self.kinds.mass, self._split(values)
        drawn = np.maximum(rng.standard_gamma(mass + kinds.shares), LEAST_SHARE)
        return np.concatenate((drawn / drawn.sum(), self.kinds.update(others, kinds, rng)))

    def condition(
        self, values: Floats, entities: int, records: int, rng: np.random.Generator
    ) -> tuple[float, int]:
        """Blocks are independent already; what they draw for themselves is summed out."""
        return 0.0, UNLIMITED

    def log_entities(self, values: Floats, entities: int, records: int) -> float:
        """The density of what is learned besides shares."""
        return self.kinds.log_density(self._split(values)[2])


class SharesOfOne(LearnedShares):
    """A single block: N! entities' orders, shares summed out; those kept inform nothing."""

    by_block = True

    def base(self, values: Floats) -> Floats:
        """The mass before the data."""
        return self.kinds.mass


class SharesOfAll(LearnedShares):
    """The same shares in all blocks: V[N] = N!, W of a kind its share times its ways."""

    def condition(
        self, values: Floats, entities: int, records: int, rng: np.random.Generator
    ) -> tuple[float, int]:
        """Given t ~ Gamma(N + 1), each cluster weighs t."""
        return math.log(rng.standard_gamma(entities + 1.0)), UNLIMITED

    def log_share(self, values: Floats) -> Floats:
        """Log of the shares."""
        found: Floats = np.log(self._split(values)[0])
        return found

    def log_entities(self, values: Floats, entities: int, records: int) -> float:
        """Log N!, plus the density of what is learned."""
        shares, _, others = self._split(values)
        density = log_dirichlet(self.kinds.mass, shares) + self.kinds.log_density(others)
        return math.lgamma(entities + 1) + density


class SharesByBlock(LearnedShares):
    """Every block b has N_b! entities' orders and its own shares (equations 23 and 24).

    Its shares are Dirichlet(`pooling` times the common shares), its N_b is free. The common shares
    are Dirichlet, the pooling Gamma.
    """

    own = ("pooling",)
    by_block = True

    def _first_own(self) -> Floats:
        return np.array([FIRST_POOLING])

    def base(self, values: Floats) -> Floats:
        """The pooling times the common shares."""
        shares, (pooling,), _ = self._split(values)
        return np.maximum(pooling * shares, LEAST_SHARE)

    def update(
        self, values: Floats, kinds: KindCounts, pooled: Pooled | None, rng: np.random.Generator
    ) -> Floats:
        """Draw the common shares and the pooling given what the blocks drew from them."""
        assert pooled is not None
        others = self.kinds.update(self._split(values)[2], kinds, rng)
        drawn = np.maximum(rng.standard_gamma(self.kinds.mass + pooled.tables), LEAST_SHARE)
        shape = POOLING_SHAPE + pooled.tables.sum() - pooled.stopped[0]
        rate = POOLING_RATE - float(as_floats(pooled.log_mass))
        pooling = max(rng.standard_gamma(shape) / rate, LEAST_SHARE)
        return np.concatenate((drawn / drawn.sum(), [pooling], others))

    def log_entities(self, values: Floats, entities: int, records: int) -> float:
        """The density of what is learned."""
        shares, (pooling,), _ = self._split(values)
        density = super().log_entities(values, entities, records)
        density += log_dirichlet(self.kinds.mass, shares)
        return density + (POOLING_SHAPE - 1.0) * math.log(pooling) - POOLING_RATE * pooling
