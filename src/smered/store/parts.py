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
from smered.store.lifetimes import LIFETIMES, LifetimeRecorder

if TYPE_CHECKING:
    from smered.store.schema import Receipt

__all__ = ["ARRAYS", "Linkage", "LocalLinkage", "PartRecorder", "Receipts", "Span", "pack"]
__all__ += ["take_array"]

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
    """Follows the linkage of one part of a chain and keeps it.

    Records are numbered from the part's first one, as are the clusters that they name.
    """

    def __init__(self, chain: int, part: int, order: Int64s) -> None:
        self.chain, self.part = chain, part
        self._order = order
        self._lifetimes = LifetimeRecorder(chain, order)
        self._ended: list[pa.Table] = []

    def add(self, draw: int, entity: Int32s) -> None:
        """Take the linkage of a draw."""
        ended = self._lifetimes.add(draw, entity)
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
        """Write everything up to the end of a span; return receipts by name."""
        files = PartFiles.of(self.chain, self.part, span)
        rows = self.take()
        state = {
            "entity": entity,
            "grade": grade,
            "entity_at_last_draw": self._lifetimes.entity,
            "born": self._lifetimes.born,
        }
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
        n, started = len(self._order), span.last_draw >= 0
        damaged = f"the checkpoint of chain {self.chain} is damaged"
        entity = take_array(data, damaged, "entity", np.int32, n)
        named = (entity >= 0).all() and (entity <= np.arange(n)).all()
        if not named or (entity[entity] != entity).any():
            raise RunError(f"{damaged}: entity is no linkage")
        self._lifetimes = LifetimeRecorder(
            self.chain,
            self._order,
            take_array(data, damaged, "entity_at_last_draw", np.int32, n if started else 0),
            take_array(data, damaged, "born", np.int32, n),
        )
        self._ended = [] if span.complete else [table(files.ended, LIFETIMES)]
        return entity, np.frombuffer(data.get("grade", b""), np.uint8).copy()


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

    def __init__(self, chain: int, order: Int64s, cuts: Cuts, before: int = 0) -> None:
        """Cut a chain's linkage; `before` is the number of parts before the first one here.

        `order` are the numbers of records in kernel order.
        """
        self._cuts = cuts
        self.parts = [
            PartRecorder(chain, before + part, order[first:last])
            for part, (first, last) in enumerate(pairwise(cuts.record.tolist()))
        ]

    def follow(self, draw: int, state: ChainState) -> None:
        """Take the linkage of a draw."""
        for recorder, first, last in self._each():
            recorder.add(draw, state.entity[first:last] - np.int32(first))

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
