"""The linkage of a chain on disk, part by part: what ended, what lives, and where to go on."""

from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from smered.errors import RunError
from smered.layout import Int32s, Int64s, Uint8s
from smered.parts import Cuts
from smered.state import ChainState
from smered.store.disk import read_table, write_table
from smered.store.lifetimes import LIFETIMES, NOTHING, Held, LifetimeRecorder

if TYPE_CHECKING:
    from smered.store.schema import Receipt

__all__ = ["ARRAYS", "Linkage", "LocalLinkage", "PartRecorder", "Receipts", "Span", "pack"]
__all__ += ["split_by_part", "take_array"]

Receipts = dict[str, dict[str, Any]]  # size and checksum of each file written, by name

# arrays as named bytes
ARRAYS = pa.schema([pa.field("name", pa.string()), pa.field("data", pa.binary())])


class Span(NamedTuple):
    """The sweeps of a chain that its newest files hold."""

    first: int
    last: int
    last_draw: int
    complete: bool  # whether files are cut here: if not, the next ones begin at `first` again

    def file(self, chain: int) -> str:
        """The name of files with the rows of these sweeps."""
        return f"chain-{chain}-sweeps-{self.first:07d}-{self.last:07d}.parquet"


class PartFiles(NamedTuple):
    """The names of a part's files in a run folder."""

    ended: str
    living: str
    state: str

    @classmethod
    def of(cls, chain: int, part: int, span: Span) -> "PartFiles":
        """The files of a part after some sweeps."""
        own = f"chain-{chain}-part-{part:04d}"
        return cls(
            f"lifetimes/{own}-sweeps-{span.first:07d}-{span.last:07d}.parquet",
            f"lifetimes/{own}-living-{span.last:07d}.parquet",
            f"checkpoints/{own}-state-{span.last:07d}.parquet",
        )


class PartRecorder:
    """Follows the clusters whose first record is in one part of a chain, and keeps them.

    Such clusters, and the records of the part, are numbered from the part's first one. If clusters
    are `crossing` parts, they hold records of other parts too, and the part's own may be elsewhere.
    """

    def __init__(
        self, chain: int, part: int, first: int, order: Int64s, crossing: bool = False
    ) -> None:
        """Begin a part with the record at position `first`; `order` are its record numbers."""
        self.chain, self.part, self.crossing = chain, part, crossing
        self.first = first
        self.own = np.arange(first, first + len(order))  # positions of its records
        self._order = order
        self._lifetimes = LifetimeRecorder(chain, len(order))
        self._ended: list[pa.Table] = []

    def hold(self, entity: Int32s) -> Held:
        """The clusters of the part's own records."""
        return Held(self.own, entity, self._order)

    def add(self, draw: int, held: Held) -> None:
        """Take the linkage of a draw."""
        ended = self._lifetimes.add(draw, held)
        if len(ended):
            self._ended.append(ended)

    def take(self) -> pa.Table:
        """Hand over the lifetimes that ended so far."""
        rows = pa.concat_tables([LIFETIMES.empty_table(), *self._ended]).combine_chunks()
        self._ended = []
        return rows

    def living(self, last_draw: int) -> pa.Table:
        """Clusters that the last draw holds."""
        if last_draw < 0:
            return LIFETIMES.empty_table()
        return self._lifetimes.living(last_draw)

    def write(self, folder: Path, span: Span, entity: Int32s, grade: Uint8s) -> Receipts:
        """Write everything up to the end of a span; return receipts by name.

        `entity` are the clusters of the part's own records, also those that other parts keep.
        """
        files = PartFiles.of(self.chain, self.part, span)
        rows = self.take()
        held = self._lifetimes.held
        state = {
            "entity": entity,
            "grade": grade,
            "entity_at_last_draw": held.entity,
            "born": self._lifetimes.born,
        }
        if self.crossing:
            state |= {"position_at_last_draw": held.position, "record_at_last_draw": held.record}
        tables = dict(zip(files, (rows, self.living(span.last_draw), pack(state)), strict=True))
        receipts = {name: write_table(folder / name, table) for name, table in tables.items()}
        if not span.complete:
            self._ended = [rows]
        return receipts

    def read(
        self, folder: Path, span: Span, receipts: "Mapping[str, Receipt]"
    ) -> tuple[Int32s, Uint8s]:
        """Take a part up where a span left it; return the linkage and the grades."""
        files = PartFiles.of(self.chain, self.part, span)

        def table(name: str, schema: pa.Schema) -> pa.Table:
            if name not in receipts:
                raise RunError(f"the checkpoint of chain {self.chain} lacks {name}")
            return read_table(folder / name, receipts[name].bytes, receipts[name].sha256, schema)

        data = {row["name"]: row["data"] for row in table(files.state, ARRAYS).to_pylist()}
        n, started = len(self.own), span.last_draw >= 0
        damaged = f"the checkpoint of chain {self.chain} is damaged"
        born = take_array(data, damaged, "born", np.int32, n)
        if ((born < 0) | (born > max(span.last_draw, 0))).any():
            raise RunError(f"{damaged}: clusters begin in draws that there are not")
        entity = take_array(data, damaged, "entity", np.int32, n)
        least = -self.first if self.crossing else 0
        inside = entity >= 0
        named = (entity >= least).all() and (entity <= np.arange(n)).all()
        if not named or (entity[entity[inside]] != entity[inside]).any():
            raise RunError(f"{damaged}: entity is no linkage")
        self._lifetimes = LifetimeRecorder(
            self.chain,
            n,
            self._held(data, damaged) if started else NOTHING,
            born,
        )
        self._ended = [] if span.complete else [table(files.ended, LIFETIMES)]
        return entity, np.frombuffer(data.get("grade", b""), np.uint8).copy()

    def _held(self, data: Mapping[str, bytes], damaged: str) -> Held:
        """The linkage at the last draw."""
        n = len(self.own)
        if not self.crossing:
            held = self.hold(take_array(data, damaged, "entity_at_last_draw", np.int32, n))
            if not ((held.entity >= 0) & (held.entity <= np.arange(n))).all():
                raise RunError(f"{damaged}: its last draw is no linkage")
            return held
        size = len(data.get("entity_at_last_draw", b"")) // np.dtype(np.int32).itemsize
        held = Held(
            take_array(data, damaged, "position_at_last_draw", np.int64, size),
            take_array(data, damaged, "entity_at_last_draw", np.int32, size),
            take_array(data, damaged, "record_at_last_draw", np.int64, size),
        )
        inside = (held.entity >= 0).all() and (held.entity < n).all() and (held.record >= 0).all()
        if not inside or (np.diff(held.position) <= 0).any():
            raise RunError(f"{damaged}: its last draw is no linkage")
        return held


class Linkage(Protocol):
    """Where the linkage of a chain is followed and kept."""

    def follow(self, draw: int, state: ChainState) -> None:
        """Take the linkage of a draw."""
        ...

    def write(self, folder: Path, span: Span, state: ChainState) -> Receipts:
        """Write the linkage up to the end of a span; return receipts by name."""
        ...

    def read(
        self, folder: Path, span: Span, receipts: "Mapping[str, Receipt]", state: ChainState
    ) -> None:
        """Take the linkage up where a span left it."""
        ...


class LocalLinkage:
    """The linkage of a chain whose state is in this process."""

    def __init__(
        self, chain: int, order: Int64s, cuts: Cuts, before: int = 0, *, crossing: bool = False
    ) -> None:
        """Cut a chain's linkage; `before` is the number of parts before the first one here.

        `order` are the numbers of records in kernel order; clusters may be `crossing` parts.
        """
        self._cuts, self._order, self._crossing = cuts, order, crossing
        self.parts = [
            PartRecorder(chain, before + part, first, order[first:last], crossing)
            for part, (first, last) in enumerate(pairwise(cuts.record.tolist()))
        ]

    def follow(self, draw: int, state: ChainState) -> None:
        """Take the linkage of a draw."""
        if self._crossing:
            position = np.arange(len(state.entity))
            pieces = split_by_part(position, state.entity, self._order, self._cuts.record)
            for recorder, held in zip(self.parts, pieces, strict=True):
                recorder.add(draw, held)
        else:
            for recorder, first, last in self._each():
                recorder.add(draw, recorder.hold(state.entity[first:last] - np.int32(first)))

    def write(self, folder: Path, span: Span, state: ChainState) -> Receipts:
        """Write the linkage up to the end of a span; return receipts by name."""
        receipts: Receipts = {}
        for number, (recorder, first, last) in enumerate(self._each()):
            entity = state.entity[first:last] - np.int32(first)
            grade = state.grade[slice(*self._cuts.candidate[number : number + 2])]
            receipts |= recorder.write(folder, span, entity, grade)
        return receipts

    def read(
        self, folder: Path, span: Span, receipts: "Mapping[str, Receipt]", state: ChainState
    ) -> None:
        """Take the linkage up where a span left it."""
        entities, grades = [], []
        for recorder, first, _ in self._each():
            entity, grade = recorder.read(folder, span, receipts)
            entities.append(entity + np.int32(first))
            grades.append(grade)
        state.entity, state.grade = np.concatenate(entities), np.concatenate(grades)
        state.entities = int((state.entity == np.arange(len(state.entity))).sum())

    def _each(self) -> Iterator[tuple[PartRecorder, int, int]]:
        """The parts, each with its first record and the one after its last."""
        spans = pairwise(self._cuts.record.tolist())
        for recorder, (first, last) in zip(self.parts, spans, strict=True):
            yield recorder, first, last


def split_by_part(position: Int64s, entity: Int32s, record: Int64s, cuts: Int64s) -> Iterator[Held]:
    """What each part holds, of records at ascending positions, clusters named by theirs."""
    part = (np.searchsorted(cuts, entity, side="right") - 1).astype(np.int16)
    order = np.argsort(part, kind="stable")
    bounds = np.searchsorted(part[order], np.arange(len(cuts)))
    for first, (start, end) in zip(cuts[:-1].tolist(), pairwise(bounds.tolist()), strict=True):
        own = order[start:end]
        yield Held(position[own], entity[own] - np.int32(first), record[own])


def pack(arrays: Mapping[str, Any]) -> pa.Table:
    """Arrays as named bytes."""
    data = [value.tobytes() for value in arrays.values()]
    columns = [pa.array(list(arrays)), pa.array(data, pa.binary())]
    return pa.Table.from_arrays(columns, schema=ARRAYS)


def take_array(
    data: Mapping[str, bytes], damaged: str, name: str, kind: type[np.generic], *shape: int
) -> Any:
    """One of the arrays packed; it must have the size that the model gives it."""
    content = data.get(name, b"")
    if len(content) != np.dtype(kind).itemsize * int(np.prod(shape)):
        raise RunError(f"{damaged}: {name} has a wrong size")
    return np.frombuffer(content, kind).reshape(shape).copy()
