"""Which pairs of records are proposed, and how often in each block.

The choice never depends on the linkage, so it changes how fast the chain mixes and never what it
converges to.
"""

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple, Protocol

import numpy as np

from smered.errors import ConfigError
from smered.layout import COIN_SIDES, Bools, Int32s, Int64s, Uint8s

__all__ = ["Arranged", "InformedPairs", "PairChoice", "PairTables", "RotatingBlocks"]
__all__ += ["Pattern", "UniformPairs"]

TELLING = 4.0  # records, on average, that agree on fields that tell them apart
MOST_KEPT = 3  # fields of such a set
MOST_PATTERNS = 48  # subsets of fields tried when building candidate lists
SAMPLE = 100_000  # records that show how telling a subset is


class Arranged(NamedTuple):
    """Records in kernel order, as far as they matter for choosing pairs; see `Layout`."""

    values: Int32s  # (n, p)
    exact: Bools  # (p,)
    block_start: Int64s  # (B + 1,)
    block_name: Int64s  # (B,)
    cell: Int32s  # (n,)
    cell_start: Int64s  # (G + 1,)
    cell_file: Int32s  # (G,)
    cell_single: Bools  # (G,) whether the cell's file holds no duplicates
    near: Bools  # (p,) fields whose distorted values fall near the true one
    loose: tuple[Int32s, ...] = ()  # (n, p) each: the values, keys that survive typos for near ones

    def partners(self) -> Int64s:
        """Number of records that may share an entity with each record (n,)."""
        block_sizes = np.diff(self.block_start)
        excluded = np.where(self.cell_single, np.diff(self.cell_start), 1)
        return np.repeat(block_sizes, block_sizes) - excluded[self.cell]


@dataclass(frozen=True)
class PairTables:
    """Candidate lists in compressed form; proposals by block, if not by candidates."""

    candidate_start: Int64s  # (n + 1,)
    candidates: Int32s
    uniform_share: float
    block_weight: Int64s | None = None  # (B,) relative number of proposals
    grade: Uint8s | None = None  # of each candidate; even if not given


class PairChoice(Protocol):
    """How pairs are chosen."""

    def patterns(self, records: Arranged) -> "list[Pattern]":
        """What to look for, found in the first records."""
        ...

    def tables(self, records: Arranged, patterns: "Sequence[Pattern]" = ()) -> PairTables:
        """Build the tables for records in kernel order, some or all."""
        ...


@dataclass(frozen=True)
class UniformPairs:
    """Every pair within a block that may share an entity, equally often (the paper's choice)."""

    def patterns(self, records: Arranged) -> "list[Pattern]":
        """Nothing to look for."""
        return []

    def tables(self, records: Arranged, patterns: "Sequence[Pattern]" = ()) -> PairTables:
        """No lists; blocks weighted by their number of pairs."""
        by_block = np.add.reduceat(records.partners(), records.block_start[:-1])
        return PairTables(
            candidate_start=np.zeros(len(records.values) + 1, np.int64),
            candidates=np.empty(0, np.int32),
            block_weight=by_block.astype(np.int64),
            uniform_share=1.0,
        )


@dataclass(frozen=True)
class RotatingBlocks:
    """Every pair within blocks that change from sweep to sweep.

    Fields are taken in random order until about `smallest` to `largest` records share a block, a
    number drawn anew for each sweep.
    """

    smallest: float = 2.0
    largest: float = 64.0

    def __post_init__(self) -> None:
        if not 1.0 <= self.smallest <= self.largest:
            raise ConfigError(
                f"smallest = {self.smallest} must be at least 1 and at most largest = "
                f"{self.largest}"
            )

    def patterns(self, records: Arranged) -> "list[Pattern]":
        """Nothing to look for."""
        return []

    def tables(self, records: Arranged, patterns: "Sequence[Pattern]" = ()) -> PairTables:
        """No lists: within a block all pairs are alike."""
        return UniformPairs().tables(records)


@dataclass(frozen=True)
class InformedPairs:
    """Mostly pairs that agree on all fields but one or two; a share of uniform pairs.

    Where distorted values fall near the true one, also pairs that agree on a few fields that tell
    records apart, by values or by keys that survive typos.

    `candidates` caps each record's list. `uniform_share` keeps every legal pair reachable in one
    proposal.
    """

    candidates: int = 16
    uniform_share: float = 0.05

    def __post_init__(self) -> None:
        if self.candidates < 1:
            raise ConfigError(f"candidates = {self.candidates} must be at least 1")
        if not 1 / COIN_SIDES <= self.uniform_share <= 1:
            raise ConfigError(f"uniform_share = {self.uniform_share} must be in (0, 1]")

    def patterns(self, records: Arranged) -> "list[Pattern]":
        """Subsets of fields to agree on, from the most telling to the least.

        Agreement that few records share tells most. The first records show how many do.
        """
        from smered.kernels.candidates import hash_rows

        rows = min(SAMPLE, len(records.values))
        block = record_blocks(records)[:rows]
        views = [view[:rows] for view in (records.values, *records.loose)]
        keys = np.empty(rows, np.uint64)

        def partners(view: int, kept: Bools, whole: bool) -> float:
            """Records that agreement on these fields gives a record, on average."""
            hash_rows(views[view], kept, block, whole, keys)
            found = np.unique(keys, return_counts=True)[1]
            return float((found.astype(np.float64) ** 2).sum() / found.sum())

        patterns = [
            (partners(0, kept, False), 0, kept, False) for kept in agreement_patterns(records.exact)
        ]
        if records.near.any():
            for view in range(len(views)):
                patterns += telling_patterns(view, records.exact, partners)
        patterns.sort(key=operator.itemgetter(0))
        return patterns

    def tables(self, records: Arranged, patterns: "Sequence[Pattern]" = ()) -> PairTables:
        """Fill the lists with records that agree as the patterns say."""
        from smered.kernels.candidates import add_candidates, hash_rows

        values, block = records.values, record_blocks(records)
        views = (values, *records.loose)
        lists = np.empty((len(values), self.candidates), np.int32)
        counts = np.zeros(len(values), np.int32)
        keys = np.empty(len(values), np.uint64)
        for _, view, kept, whole in patterns:
            hash_rows(views[view], kept, block, whole, keys)
            order = np.argsort(keys, kind="stable")
            add_candidates(order, keys, block, records.cell, records.cell_single, lists, counts)
            if (counts == self.candidates).all():
                break
        filled = np.arange(self.candidates) < counts[:, None]
        return PairTables(
            candidate_start=np.concatenate(([0], np.cumsum(counts, dtype=np.int64))),
            candidates=lists[filled],
            uniform_share=self.uniform_share,
        )


def record_blocks(records: Arranged) -> Int64s:
    """The block of each record (n,)."""
    return np.repeat(records.block_name, np.diff(records.block_start))


Pattern = tuple[float, int, Bools, bool]  # partners, view, fields kept, complete records only


def telling_patterns(
    view: int, exact: Bools, partners: Callable[[int, Bools, bool], float]
) -> list[Pattern]:
    """The smallest sets of one to three fields that few records agree on."""
    found: list[Pattern] = []
    may_differ = np.flatnonzero(~exact)
    for size in range(1, MOST_KEPT + 1):
        for fields in combinations(may_differ, size):
            kept = exact.copy()
            kept[list(fields)] = True
            if any((smaller & ~kept).sum() == 0 for _, _, smaller, _ in found):
                continue  # some of these fields tell enough
            shared = partners(view, kept, True)
            if shared <= TELLING:
                found.append((shared, view, kept, True))
    return found


def agreement_patterns(exact: Bools) -> list[Bools]:
    """Subsets of fields to agree on: all, then all but one, then all but two.

    Exact fields are always agreed on.
    """
    may_differ = np.flatnonzero(~exact)
    patterns = []
    for differing in range(3):
        for left_out in combinations(may_differ, differing):
            kept = np.ones(len(exact), np.bool_)
            kept[list(left_out)] = False
            patterns.append(kept)
    return patterns[:MOST_PATTERNS]
