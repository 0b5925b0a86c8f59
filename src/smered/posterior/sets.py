"""Matching sets: the distinct clusters of a posterior, each with the draws that hold it."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from smered.layout import Int32s, Int64s
from smered.store.lifetimes import Lifetimes

__all__ = ["MatchingSets", "group_starts", "lifetimes_with"]

PAIRS_AT_ONCE = 1 << 22  # of sets, before those that several sets hold are added up
MANY = 100_000  # keys that are numbered by hashing: sooner than by sorting, once Arrow is warm


@dataclass(frozen=True)
class MatchingSets:
    """Distinct sets of records; a set's probability is `draws` over all draws."""

    sets: Lifetimes  # one lifetime for each set; only its members matter
    draws: Int64s  # (S,) total length of the set's lifetimes

    def __len__(self) -> int:
        return len(self.draws)

    @classmethod
    def of(cls, lifetimes: Lifetimes) -> "MatchingSets":
        """Add up lifetimes of the same set."""
        if not len(lifetimes):
            return cls(lifetimes, np.zeros(0, np.int64))
        number = number_sets(lifetimes)
        first = first_of_each(number)
        draws = np.bincount(number, lifetimes.length).astype(np.int64)
        return cls(lifetimes.select(first), draws)

    @cached_property
    def rank(self) -> Int64s:
        """Order of the sets (S,): most draws, then largest, then first in lexicographic order."""
        size = self.sets.size
        lexicographic = np.zeros(len(self), np.int64)
        for s in np.unique(size):
            rows = np.flatnonzero(size == s)
            members = self.sets.member[self.sets.start[rows][:, None] + np.arange(s)]
            lexicographic[rows[np.lexsort(members.T[::-1])]] = np.arange(len(rows))
        order = np.lexsort((lexicographic, -size, -self.draws))
        rank = np.empty(len(self), np.int64)
        rank[order] = np.arange(len(self))
        return rank

    def most_probable(self) -> Int64s:
        """For each record the set with the best rank among those that hold it (n,)."""
        best = np.full(self.sets.records, len(self), np.int64)
        np.minimum.at(best, self.sets.member, self.rank[self.sets.owner])
        return np.argsort(self.rank)[best]

    def shared(self) -> Int64s:
        """Sets that are the most probable one of every record they hold."""
        chosen = np.bincount(self.most_probable(), minlength=len(self))
        return np.flatnonzero(chosen == self.sets.size)

    @cached_property
    def pairs(self) -> tuple[Int64s, Int64s, Int64s]:
        """All pairs of records that share a set, in order, and the draws in which they do."""
        return self.pairs_of(self.sets.records)

    def pairs_of(self, largest: int) -> tuple[Int64s, Int64s, Int64s]:
        """The same, of sets of at most so many records: larger ones have very many pairs."""
        n, size = self.sets.records, self.sets.size
        found = np.zeros((2, 0), np.int64)  # pairs as first * n + second, and their draws
        waiting, held = [found], 0
        for s in np.unique(size[(size > 1) & (size <= largest)]):
            rows = np.flatnonzero(size == s)
            one, two = np.triu_indices(s, 1)
            step = max(1, PAIRS_AT_ONCE // len(one))
            for at in range(0, len(rows), step):
                part = rows[at : at + step]
                members = self.sets.member[self.sets.start[part][:, None] + np.arange(s)].astype(
                    np.int64
                )
                keys = (members[:, one] * n + members[:, two]).ravel()
                waiting.append(np.stack((keys, np.repeat(self.draws[part], len(one)))))
                held += len(keys)
                if held > max(PAIRS_AT_ONCE, found.shape[1]):
                    found, held = add_up(waiting), 0
                    waiting = [found]
        keys, draws = add_up(waiting)
        return keys // n, keys % n, draws


def add_up(parts: Sequence[Int64s]) -> Int64s:
    """Keys, each once and in order, and the sums of their numbers (2, keys)."""
    keys, numbers = np.concatenate(parts, axis=1)
    distinct, place = np.unique(keys, return_inverse=True)
    sums = np.bincount(place, numbers, minlength=len(distinct))
    return np.stack((distinct, sums.astype(np.int64)))


def group_starts(key: Int32s, values: Int64s, groups: int) -> tuple[Int64s, Int64s]:
    """Group values by an integer key: the values in order of it, and where each group begins."""
    order = np.argsort(key, kind="stable")
    start = np.concatenate(([0], np.cumsum(np.bincount(key, minlength=groups))))
    return values[order], start


def lifetimes_with(lifetimes: Lifetimes, records: Int64s) -> Lifetimes:
    """The lifetimes whose cluster holds all these records."""
    rows: Int64s | None = None
    for record in records:
        at = np.flatnonzero(lifetimes.member == record)
        holding = np.searchsorted(lifetimes.start, at, side="right") - 1
        rows = holding if rows is None else np.intersect1d(rows, holding, assume_unique=True)
    return lifetimes.select(np.zeros(0, np.int64) if rows is None else rows)


def first_of_each(number: Int64s) -> Int64s:
    """Where each number first stands; numbers count up from 0 in order of appearance."""
    return np.flatnonzero(np.diff(np.maximum.accumulate(number), prepend=-1))


def number_keys(keys: NDArray[np.uint64]) -> Int64s:
    """Number distinct keys from 0 in order of appearance; many by hashing, few by sorting."""
    if len(keys) > MANY:
        return pa.array(keys).dictionary_encode().indices.to_numpy().astype(np.int64)
    _, first, number = np.unique(keys, return_index=True, return_inverse=True)
    rank = np.empty(len(first), np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    return rank[number]


def number_sets(lifetimes: Lifetimes) -> Int64s:
    """Give lifetimes of the same set the same number (L,), from 0 in order of appearance.

    Sets are found by a 64-bit hash and then compared member by member, so that a collision can
    never join two sets.
    """
    mixed = (np.arange(lifetimes.records, dtype=np.uint64) + np.uint64(1)) * np.uint64(
        0x9E3779B97F4A7C15
    )
    mixed ^= mixed >> np.uint64(29)
    mixed *= np.uint64(0xBF58476D1CE4E5B9)
    mixed ^= mixed >> np.uint64(32)
    hashed = np.add.reduceat(mixed[lifetimes.member], lifetimes.start[:-1])
    number = number_keys(hashed)
    first, size = first_of_each(number), lifetimes.size
    same_size = np.array_equal(size, size[first][number])
    if same_size and np.array_equal(lifetimes.member, lifetimes.select(first[number]).member):
        return number
    return number_sets_slowly(lifetimes)


def number_sets_slowly(lifetimes: Lifetimes) -> Int64s:
    """The same without hashing to 64 bits, for the rare data whose hashes collide."""
    numbers: dict[bytes, int] = {}
    bounds = zip(lifetimes.start[:-1], lifetimes.start[1:], strict=True)
    return np.array(
        [numbers.setdefault(lifetimes.member[a:b].tobytes(), len(numbers)) for a, b in bounds]
    )
