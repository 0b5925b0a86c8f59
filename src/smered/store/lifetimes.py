"""Cluster lifetimes: the whole posterior of the linkage, lossless, in four columns.

Between two draws most clusters do not change. A lifetime is a cluster with the first and the last
draw of an unbroken run of draws that have it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from smered.errors import DataError
from smered.layout import Int32s, Int64s
from smered.store.disk import as_numpy

__all__ = ["LIFETIMES", "NOTHING", "Held", "LifetimeRecorder", "Lifetimes"]

SECRETS = 2**61  # sums may wrap around
LIFETIMES = pa.schema(
    [
        pa.field("chain", pa.int32(), nullable=False),
        pa.field("first", pa.int32(), nullable=False),
        pa.field("last", pa.int32(), nullable=False),
        pa.field(
            "members", pa.list_(pa.field("record", pa.int32(), nullable=False)), nullable=False
        ),
    ]
)


class Held(NamedTuple):
    """The records of some clusters, by their position in the kernel order.

    A cluster is named by its first record, counted from the first one of the part it belongs to.
    """

    position: Int64s  # (m,) ascending
    entity: Int32s  # (m,) the cluster of each
    record: Int64s  # (m,) record number of each

    def clusters_of(self, position: Int64s) -> Int32s:
        """The clusters of the records at other positions, -1 for those that are not held."""
        if position is self.position:
            return self.entity
        if not len(self.position):
            return np.full(len(position), -1, np.int32)
        at = np.minimum(np.searchsorted(self.position, position), len(self.position) - 1)
        return np.where(self.position[at] == position, self.entity[at], np.int32(-1))


NOTHING = Held(np.empty(0, np.int64), np.empty(0, np.int32), np.empty(0, np.int64))


class LifetimeRecorder:
    """Follows one chain's linkage from draw to draw and reports clusters as they end.

    It follows the clusters whose first record is one of so many `firsts`: those of a part.
    """

    def __init__(
        self, chain: int, firsts: int, held: Held = NOTHING, born: Int32s | None = None
    ) -> None:
        self.chain = chain
        self.held = held  # at the last draw
        self.born = np.zeros(firsts, np.int32) if born is None else born  # by first record

    def add(self, draw: int, held: Held) -> pa.Table:
        """Take the linkage of a draw; return the lifetimes that ended with the draw before."""
        before, firsts = self.held, len(self.born)
        sizes_before = np.bincount(before.entity, minlength=firsts)
        sizes = np.bincount(held.entity, minlength=firsts)
        # A cluster lives on exactly if its first record and its size stay for all its members.
        changed = held.clusters_of(before.position) != before.entity
        changed |= sizes[before.entity] != sizes_before[before.entity]
        ended = np.zeros(firsts, np.bool_)
        ended[before.entity[changed]] = True
        table = self._rows(np.flatnonzero(ended[before.entity]), draw - 1)
        if held.position is not before.position:  # else the same records changed
            changed = before.clusters_of(held.position) != held.entity
            changed |= sizes[held.entity] != sizes_before[held.entity]
        self.born[held.entity[changed]] = draw
        self.held = held
        return table

    def living(self, draw: int) -> pa.Table:
        """The clusters of the last draw, as lifetimes that end there."""
        return self._rows(np.arange(len(self.held.entity)), draw)

    def _rows(self, chosen: Int64s, last: int) -> pa.Table:
        """Lifetimes of the clusters that some of the records held form."""
        entity, members = self.held.entity[chosen], self.held.record[chosen]
        by_cluster = np.lexsort((members, entity))
        names, start = np.unique(entity[by_cluster], return_index=True)
        offsets = np.append(start, len(members)).astype(np.int32)
        rows = len(names)
        listed = pa.ListArray.from_arrays(
            pa.array(offsets), pa.array(members[by_cluster].astype(np.int32)),
            type=LIFETIMES.field("members").type,
        )  # fmt: skip
        chain, final = np.full(rows, self.chain, np.int32), np.full(rows, last, np.int32)
        return pa.Table.from_arrays([chain, self.born[names], final, listed], schema=LIFETIMES)


@dataclass(frozen=True)
class Lifetimes:
    """The lifetimes of all chains as flat arrays, ready to be summed over."""

    chain: Int32s  # (L,)
    first: Int32s  # (L,)
    last: Int32s  # (L,)
    start: Int64s  # (L + 1,) first member of each lifetime
    member: Int32s  # record numbers, ascending within a lifetime
    records: int

    def __len__(self) -> int:
        return len(self.chain)

    @cached_property
    def length(self) -> Int64s:
        """Draws that each lifetime spans (L,)."""
        length = np.subtract(self.last, self.first, dtype=np.int64)
        length += 1
        return length

    @cached_property
    def size(self) -> Int64s:
        """Records of each cluster (L,)."""
        return np.diff(self.start)

    @property
    def owner(self) -> Int64s:
        """The lifetime that each member belongs to."""
        return np.repeat(np.arange(len(self)), self.size)

    def select(self, rows: Int64s) -> "Lifetimes":
        """The lifetimes at these positions."""
        size = self.size[rows]
        start = np.concatenate(([0], np.cumsum(size)))
        within = np.arange(start[-1]) - np.repeat(start[:-1], size)
        member = self.member[np.repeat(self.start[rows], size) + within]
        return Lifetimes(
            self.chain[rows], self.first[rows], self.last[rows], start, member, self.records
        )

    def member_list(self, row: int) -> list[int]:
        """The records of one cluster."""
        return self.member[self.start[row] : self.start[row + 1]].tolist()

    def before(self, chains: int, draws: int) -> "Lifetimes":
        """What the first `draws` draws of the first `chains` chains hold."""
        if not len(self) or (self.last.max() < draws and self.chain.max() < chains):
            return self
        cut = self.select(np.flatnonzero((self.first < draws) & (self.chain < chains)))
        return replace(cut, last=np.minimum(cut.last, draws - 1).astype(np.int32))

    @classmethod
    def from_table(
        cls, table: pa.Table, *, records: int, chains: int, draws: Sequence[int]
    ) -> "Lifetimes":
        """Take a table of lifetimes, checking that they partition the records in every draw.

        The lifetimes of a record in a chain must follow each other without gap or overlap: give
        every draw a secret random number, and the differences over lifetimes add up to that over
        all draws. The table is copied part by part: temporaries of a part's size stay in the cache.
        """
        parts = [batch for batch in table.to_batches() if len(batch)]
        rows = np.cumsum([0, *map(len, parts)])
        members = np.cumsum([0, *(len(batch.column("members").flatten()) for batch in parts)])
        chain, first, last = (np.empty(rows[-1], np.int32) for _ in range(3))
        start, member = np.zeros(rows[-1] + 1, np.int64), np.empty(members[-1], np.int32)
        reach, covered = np.asarray(draws), np.zeros(records, np.int64)
        secret = np.random.default_rng().integers(-SECRETS, SECRETS, (chains, reach.max() + 1))
        for i, batch in enumerate(parts):
            own, held = slice(rows[i], rows[i + 1]), slice(members[i], members[i + 1])
            chain[own] = as_numpy(batch.column("chain"))
            first[own] = as_numpy(batch.column("first"))
            last[own] = as_numpy(batch.column("last"))
            offsets = as_numpy(batch.column("members").offsets)
            start[rows[i] + 1 : rows[i + 1] + 1] = offsets[1:] + (members[i] - offsets[0])
            member[held] = as_numpy(batch.column("members").flatten())
            part = cls(chain[own], first[own], last[own], offsets, member[held], records)
            part._check(reach)
            ages = secret[part.chain, part.last + 1] - secret[part.chain, part.first]
            np.add.at(covered, part.member, np.repeat(ages, part.size))
        whole = (secret[np.arange(chains), reach] - secret[:, 0]).sum()
        if (covered != whole).any():
            raise DataError("lifetimes do not hold every record once in every draw")
        return cls(chain, first, last, start, member, records)

    def _check(self, draws: Int64s) -> None:
        """Check that all numbers make sense; `draws` are the draws of each chain."""
        if self.chain.min() < 0 or self.chain.max() >= len(draws):
            raise DataError("lifetimes name a chain that the run does not have")
        if self.first.min() < 0 or self.length.min() < 1:
            raise DataError("lifetimes end before they begin")
        if self.last.max() >= draws.min() and (self.last >= draws[self.chain]).any():
            raise DataError("lifetimes reach beyond the last draw")
        if self.size.min() <= 0 or self.member.min() < 0 or self.member.max() >= self.records:
            raise DataError("lifetimes name records that the run does not have")
        rising = np.diff(self.member) > 0
        rising[self.start[1:-1] - self.start[0] - 1] = True  # from one cluster to the next
        if not rising.all():
            raise DataError("lifetimes do not name their records in order")
