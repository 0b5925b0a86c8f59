"""Cluster lifetimes: the whole posterior of the linkage, lossless, in four columns.

Between two draws most clusters do not change. A lifetime is a cluster with the first and the last
draw of an unbroken run of draws that have it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pyarrow as pa

from smered.errors import DataError
from smered.layout import Int32s, Int64s

__all__ = ["LIFETIMES", "LifetimeRecorder", "Lifetimes"]

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


class LifetimeRecorder:
    """Follows one chain's linkage from draw to draw and reports clusters as they end."""

    def __init__(
        self, chain: int, order: Int64s, entity: Int32s | None = None, born: Int32s | None = None
    ) -> None:
        self.chain = chain
        self._order = order  # (n,) record number at each position of the kernel order
        self.entity = np.empty(0, np.int32) if entity is None else entity  # at the last draw
        self.born = np.zeros(len(order), np.int32) if born is None else born  # by first record

    def add(self, draw: int, entity: Int32s) -> pa.Table:
        """Take the linkage of a draw; return the lifetimes that ended with the draw before."""
        if not len(self.entity):
            self.entity = entity.copy()
            self.born.fill(draw)
            return LIFETIMES.empty_table()
        before, sizes_before = self.entity, np.bincount(self.entity, minlength=len(entity))
        sizes = np.bincount(entity, minlength=len(entity))
        # A cluster lives on exactly if its first record and its size stay for all its members.
        changed = (entity != before) | (sizes[entity] != sizes_before[before])
        ended = np.zeros(len(entity), np.bool_)
        ended[before[changed]] = True
        table = self._rows(np.flatnonzero(ended[before]), draw - 1)
        self.born[entity[changed]] = draw
        self.entity = entity.copy()
        return table

    def living(self, draw: int) -> pa.Table:
        """The clusters of the last draw, as lifetimes that end there."""
        return self._rows(np.arange(len(self.entity)), draw)

    def _rows(self, positions: Int64s, last: int) -> pa.Table:
        """Lifetimes of the clusters that the records at these positions form."""
        entity = self.entity[positions]
        members = self._order[positions]
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
    def from_tables(
        cls, tables: Sequence[pa.Table], *, records: int, chains: int, draws: Sequence[int]
    ) -> "Lifetimes":
        """Join tables of lifetimes, checking that they partition the records in every draw."""
        table = pa.concat_tables(tables).combine_chunks()
        columns = [column_chunk(table.column(name)) for name in LIFETIMES.names]
        chain, first, last = (column.to_numpy(zero_copy_only=False) for column in columns[:3])
        lists = columns[3]
        offsets = lists.offsets.to_numpy()
        member = lists.values.to_numpy(zero_copy_only=False)[offsets[0] : offsets[-1]]
        start = np.subtract(offsets, offsets[0], dtype=np.int64)
        self = cls(chain, first, last, start, member, records)
        self._check(chains, np.asarray(draws))
        return self

    def _check(self, chains: int, draws: Int64s) -> None:
        if not len(self):
            return
        if self.chain.min() < 0 or self.chain.max() >= chains:
            raise DataError("lifetimes name a chain that the run does not have")
        if self.first.min() < 0 or self.length.min() < 1:
            raise DataError("lifetimes end before they begin")
        if self.last.max() >= draws.min() and (self.last >= draws[self.chain]).any():
            raise DataError("lifetimes reach beyond the last draw")
        size = self.size
        if size.min() <= 0 or self.member.min() < 0 or self.member.max() >= self.records:
            raise DataError("lifetimes name records that the run does not have")
        covered = np.bincount(self.chain, self.length * size, minlength=chains)
        if not np.array_equal(covered, draws * self.records):
            raise DataError("lifetimes do not hold every record once in every draw")


def column_chunk(column: pa.ChunkedArray) -> pa.Array:
    """The one chunk of a combined column."""
    return column.chunk(0) if column.num_chunks else pa.array([], column.type)
