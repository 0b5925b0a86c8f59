"""Rotating blocks on Ray: records move between workers as their blocks change.

A worker holds some entities, whole: all records of each. Before a sweep, each entity goes to the
worker that has the group of its new block (see `smered.rotating`). Draws and checkpoints are kept
by the worker that read the part they belong to. What moves goes from worker to worker, through
Ray's object store; the driver holds none of it.
"""

from itertools import pairwise
from typing import Any, NamedTuple, TypeVar

import numpy as np

from smered.execute import make_executor
from smered.execute.on_ray.outline import Outline, over_records
from smered.execute.on_ray.worker import PartsWorker, own_copy, writable
from smered.layout import BlockPrior, Int32s, Int64s, Layout, Parameters, Statistics
from smered.pairs import UniformPairs
from smered.rotating import groups_of, number_of_groups, propose_rotated, rotate
from smered.state import fields_to_agree_on, kept_apart, link_equal, start_parameters
from smered.store.parts import PartRecorder, Receipts, Span, split_by_part
from smered.store.schema import Receipt
from smered.warm import compile_kernels

__all__ = ["RotatingWorker"]


class Cargo(NamedTuple):
    """Records on their way to a worker, or held by it in the order of their positions."""

    position: Int64s  # (m,) among all records, in kernel order
    record: Int64s  # (m,) record number
    file: Int32s  # (m,)
    block: Int64s  # (m,) of the blocks that never change
    values: Int32s  # (m, p)
    name: Int64s  # (m,) position of the first record of the entity
    note: Int32s  # (m, c) what else the receiver must know


class Kept(NamedTuple):
    """The entities of records, on their way to the worker that keeps them."""

    position: Int64s
    record: Int64s
    name: Int64s


Columns = TypeVar("Columns", Cargo, Kept)


def share_evenly(things: int, workers: int) -> Int64s:
    """The worker of each of some things, neighbours together."""
    return np.arange(things) * workers // things


class RotatingWorker(PartsWorker):
    """Holds whole entities, others in every sweep."""

    def prepare(self, outline: Outline, cuts: list[int], proposals: int, crossing: bool) -> None:
        """Take the model, the positions at which the parts of each worker begin, and the last end.

        A sweep makes so many `proposals`; entities may be `crossing` parts if there are several.
        """
        compile_kernels()
        outline = own_copy(outline)
        model = self._model = outline.model
        self._workers = len(cuts) - 1
        self._shares = np.array(cuts)
        self._block_start = np.concatenate(([0], np.cumsum(model.block_sizes)))
        self._owners = share_evenly(number_of_groups(model.size), self._workers)
        self._proposals = proposals
        own = np.arange(self._cuts[0], self._cuts[-1])
        self._held = Cargo(
            own, self._order, self._records.file, self._records.block,
            over_records(outline, self._records).values(), own, np.empty((len(own), 0), np.int32),
        )  # fmt: skip
        self._state = start_parameters(model, self._chain, 0)
        self._execute = make_executor(model, self._lay_out(), self._threads)
        starts = (self._cuts - self._cuts[0]).tolist()
        self._recorders = [
            PartRecorder(self._chain, self._parts[0] + part, int(self._cuts[part]),
                         self._order[start:end], crossing)
            for part, (start, end) in enumerate(pairwise(starts))
        ]  # fmt: skip

    # -- records on the move -----------------------------------------------------------------

    def _lay_out(self) -> Layout:
        """The records held, in blocks that never change."""
        held = self._held
        arranged = self._model.arrange_values(held.values, held.file, held.block)
        layout = self._model.lay_out(arranged, UniformPairs().tables(arranged))
        place = (held.position - self._block_start[held.block]).astype(np.int32)
        return layout._replace(place=place, proposals=np.zeros(len(arranged.block_name)))

    def _take(self, pieces: tuple[Cargo, ...]) -> None:
        """Hold the records that came, and no others."""
        self._held = held = together(pieces)
        self._state.entity = np.searchsorted(held.position, held.name).astype(np.int32)
        self._execute.use(self._lay_out())

    def _entities(self) -> int:
        """Name entities by where their first records stand; return their number."""
        held, entity = self._held, self._state.entity
        self._held = held._replace(name=held.position[entity])
        return int((entity == np.arange(len(entity))).sum())

    def _send(self, what: Columns, to: Int64s) -> Any:
        """Something for each worker: as a task returns it, for a single worker just that."""
        order = np.argsort(to, kind="stable")
        bounds = np.searchsorted(to[order], np.arange(self._workers + 1)).tolist()
        pieces = tuple(rows_of(what, order[start:end]) for start, end in pairwise(bounds))
        return pieces if len(pieces) > 1 else pieces[0]

    # -- the first linkage -------------------------------------------------------------------

    def give_alike(self, seed: int) -> Any:
        """Send records that may be linked at the start to one worker."""
        held, chain = self._held, self._chain
        fields = fields_to_agree_on(self._model, chain, seed)
        apart = kept_apart(len(held.position), chain, seed, int(held.position[0]))
        held = held._replace(note=apart[:, None].astype(np.int32))
        return self._send(held, groups_of(held.block, held.values[:, fields], self._workers))

    def start(self, seed: int, *pieces: Cargo) -> int:
        """Link records for the first time; return the number of entities."""
        self._take(pieces)
        fields = fields_to_agree_on(self._model, self._chain, seed)
        values, apart = self._held.values[:, fields], self._held.note[:, 0].astype(np.bool_)
        self._state.entity = link_equal(values, apart, self._model, self._execute.layout)
        return self._entities()

    # -- sweeps ------------------------------------------------------------------------------

    def give_rotated(self, sweep: int, parameters: Parameters, fields: Int64s, seed: int) -> Any:
        """Send entities to the worker of their new block."""
        self._state.sweep = sweep
        held, parameters = self._held, writable(parameters)
        true = self._execute.true_values(
            self._state, parameters, writable(fields), seed, self._chain
        )
        group = groups_of(held.block, true, len(self._owners))
        return self._send(held._replace(note=true), self._owners[group])

    def rotate(
        self, sweep: int, parameters: Parameters, fields: Int64s, *pieces: Cargo
    ) -> tuple[Int64s, int, int]:
        """Lay out what came; return sizes of groups, records to link, and the largest block."""
        self._take(pieces)
        self._state.sweep = sweep
        held = self._held
        self._rotation = rotate(
            self._model, self._execute.layout, writable(parameters), fields, held.note,
            held.position,
        )  # fmt: skip
        return self._rotation.group_sizes, self._rotation.linkable, self._rotation.largest

    def run(self, method: str, sweep: int, *arguments: Any) -> Any:
        """Do something to the state; counts of blocks are named, for others hold some of them."""
        found = super().run(method, sweep, *arguments)
        return (self._execute.layout.block_name, found) if method == "block_counts" else found

    def sweep(
        self,
        parameters: Parameters,
        by_group: BlockPrior,
        linkable: int,
        seed: int,
        own: BlockPrior | None,
    ) -> Statistics:
        """Make the proposals of a sweep in blocks that were rotated, then draw y and z."""
        state, chain = self._state, self._chain
        moves = propose_rotated(
            self._execute, self._rotation, writable(by_group), self._proposals, linkable, state,
            seed, chain, None if own is None else writable(own),
        )  # fmt: skip
        self._entities()
        counted = self._execute.count(state, writable(parameters), seed, chain)
        return counted._replace(moves=moves)

    # -- what is kept ------------------------------------------------------------------------

    def give_clusters(self) -> Any:
        """Send entities to the worker that keeps the part of their first record."""
        return self._send(self._kept(), self._keeper(self._held.name))

    def give_home(self) -> Any:
        """Send what entity each record is of to the worker that read the record."""
        return self._send(self._kept(), self._keeper(self._held.position))

    def _kept(self) -> Kept:
        return Kept(self._held.position, self._held.record, self._held.name)

    def _keeper(self, position: Int64s) -> Int64s:
        """The worker that keeps the part with the record at each position."""
        return np.searchsorted(self._shares, position, side="right") - 1

    def follow(self, draw: int, *pieces: Kept) -> None:
        """Take the linkage of a draw."""
        kept = together(pieces)
        name = kept.name.astype(np.int32)
        parts = split_by_part(kept.position, name, kept.record, self._cuts)
        for recorder, held in zip(self._recorders, parts, strict=True):
            recorder.add(draw, held)

    def write(self, span: Span, *pieces: Kept) -> Receipts:
        """Write the linkage up to the end of a span."""
        name = together(pieces).name
        receipts: Receipts = {}
        for recorder in self._recorders:
            start = recorder.first - int(self._cuts[0])
            own = name[start : start + len(recorder.own)] - recorder.first
            none = np.empty(0, np.uint8)
            receipts |= recorder.write(self._path, span, own.astype(np.int32), none)
        return receipts

    def read(self, span: Span, receipts: dict[str, Receipt]) -> None:
        """Take the linkage of the parts up where a span left it."""
        names = [
            recorder.read(self._path, span, receipts)[0].astype(np.int64) + recorder.first
            for recorder in self._recorders
        ]
        self._held = self._held._replace(name=np.concatenate(names))

    def give_whole(self) -> Any:
        """Send records so that entities are whole again."""
        return self._send(self._held, self._keeper(self._held.name))

    def take_whole(self, *pieces: Cargo) -> int:
        """Hold whole entities; return their number."""
        self._take(pieces)
        return self._entities()


def rows_of(columns: Columns, rows: Int64s) -> Columns:
    """Some rows of named columns."""
    kind: Any = type(columns)
    chosen: Columns = kind(*(array[rows] for array in columns))
    return chosen


def together(pieces: tuple[Columns, ...]) -> Columns:
    """The rows of all pieces, in the order of their positions."""
    kind: Any = type(pieces[0])
    joined = kind(*(np.concatenate(column) for column in zip(*pieces, strict=True)))
    return rows_of(joined, np.argsort(joined.position))
