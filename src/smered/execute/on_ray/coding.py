"""Records coded on a cluster: for tables that no single machine need hold.

Tables are read in pieces, by tasks. A first pass finds the values of every column, which become its
levels; a second one codes the pieces and counts them. The records are then sorted into the parts of
a run folder, whose files are the same as those that one machine would write. The driver sees levels
and counts.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from smered.errors import ConfigError, DataError, SmeredError
from smered.execute.on_ray.outline import Counts, add_counts, outline_of
from smered.execute.on_ray.pieces import (
    Blocks,
    Coded,
    Codes,
    Look,
    Place,
    Request,
    code,
    copy_input,
    find_starts,
    first_repeated,
    look,
    sort_out,
    take_fingerprint,
    telling,
    write_bundle,
)
from smered.fields import Field
from smered.fields.field import warn_of_useless
from smered.layout import Int64s
from smered.mistakes import no_block, same_id
from smered.model import Model, as_fields
from smered.records import Column, Reading, Records, check_columns, code_column, number_rows
from smered.sources import ParquetTable
from smered.sources.parquet import is_remote
from smered.store.records import write_meaning

__all__ = ["Coding"]

BUNDLES_PER_PROCESSOR = 4  # runs of parts that one task writes
MOST_BUCKETS = 256  # of ids
PIECES_AT_ONCE = 64  # whose findings are merged at once


class Coding:
    """Tables on their way into a run folder; see `smered.store.keeper.Keeper`."""

    def __init__(
        self,
        ray: Any,
        tables: Mapping[str, ParquetTable],
        *,
        columns: Sequence[str],
        id: str | None,
        file_column: str | None,
        blocks: Sequence[str],
        missing: Sequence[str],
    ) -> None:
        """Find the values of all columns."""
        self._ray, self._tables = ray, dict(tables)
        needed = list(dict.fromkeys([*columns, *blocks]))
        self._places = list(find_places(tables))
        buckets = min(max(len(self._places), 2), MOST_BUCKETS)
        self._request = Request(tuple(needed), id, file_column, tuple(blocks), buckets)
        if file_column is not None and len(tables) != 1:
            raise DataError("give either one table per file or a file column, not both")
        for name, table in self._tables.items():
            check_columns(name, table.schema.empty_table(), self._request.needed)
            if table.rows == 0:
                raise DataError(f"file {name!r} has no rows; leave it out or fill it")
        tasks = self._each(look, 1, [(self._request,)] * len(self._places))
        looks, values = self._merge_looks(tasks)
        files = list(dict.fromkeys(file for found in looks for file in found))
        sizes = {file: sum(one[file].rows for one in looks if file in one) for file in files}
        self._starts = list(find_starts(looks, files, sizes))
        self._whole_ids = {
            file: all(one[file].whole_ids for one in looks if file in one) for file in files
        }
        self._codes: dict[tuple[str, str], Codes] = {}
        coded = {
            name: self._code_column(name, files, values, missing) for name in self._request.columns
        }
        self.records = Records(  # none of them, but all that they have in common
            files=tuple(files),
            file=np.empty(0, np.int32),
            ids=pa.array([], pa.string()),
            columns=coded,
            block=np.empty(0, np.int64),
            block_columns=tuple(blocks),
            reading=Reading(id, file_column, tuple(missing)),
        )

    def _merge_looks(
        self, tasks: list[Any]
    ) -> tuple[list[dict[str, Look]], dict[tuple[str, str], pa.Array]]:
        """What was found of each piece, but for the values; the values of each file's columns."""
        looks: list[dict[str, Look]] = []
        values: dict[tuple[str, str], pa.Array] = {}
        for found in self._in_turns(tasks):
            parts: dict[tuple[str, str], list[pa.Array]] = {}
            for one in found:
                for file, held in one.items():
                    for name, own in held.values.items():
                        parts.setdefault((file, name), []).append(own)
                looks.append({file: held._replace(values={}) for file, held in one.items()})
            for key, new in parts.items():
                known = [values[key]] if key in values else []
                values[key] = pc.unique(pa.chunked_array([*known, *new]))
        return looks, values

    def _code_column(
        self,
        name: str,
        files: Sequence[str],
        values: Mapping[tuple[str, str], pa.Array],
        missing: Sequence[str],
    ) -> Column:
        """Number the values of a column as if each stood in one record."""
        parts = {file: pa.chunked_array([values[file, name]]) for file in files}
        column = code_column(name, parts, missing)
        start = 0
        for file, part in parts.items():
            own = column.codes[start : start + len(part)]
            self._codes[file, name] = Codes(part.combine_chunks(), own)
            start += len(part)
        return Column(name, np.empty(0, np.int32), column.levels)

    def model(self, fields: Sequence[str | Field], **settings: Any) -> Model:
        """Code all pieces; return the model without its records."""
        model = Model(self.records, fields, **settings)
        shared = [
            self._ray.put(what)
            for what in (self._codes, self._whole_ids, as_fields(fields), self.records)
        ]
        given = [(self._request, starts, *shared) for starts in self._starts]
        returns = 3 + (self._request.buckets if self._request.id is not None else 0)
        found = self._each(code, returns, given)
        self._coded = [each[0] for each in found]
        counts: list[Counts] = []
        for several in self._in_turns([each[1] for each in found]):
            counts = [add_counts([*counts, *several])]
        self._merge_blocks([each[2] for each in found], rotating=model.rotates)
        self._check_ids([each[3:] for each in found])
        self._model: Model = outline_of(model, counts, self._block_sizes).model
        for part in self._model.coded:
            if part.similar is None:
                warn_of_useless(part.name, int((part.shown > 0).sum()), int(part.shown.sum()))
        return self._model

    def _merge_blocks(self, tasks: list[Any], *, rotating: bool) -> None:
        """Number all blocks and count their records.

        What each piece holds of them is kept only where parts may end within blocks.
        """
        self._blocks: list[Blocks] = []
        rows = np.empty((0, len(self._request.blocks)), np.int32)
        sizes = np.empty(0, np.int64)
        for found in self._in_turns(tasks):
            if rotating:
                self._blocks += found
            both = np.concatenate([rows, *(one.rows for one in found)])
            records = np.concatenate([sizes, *(one.records for one in found)])
            number = number_rows(list(both.T), len(both))
            rows = both[np.unique(number, return_index=True)[1]]
            sizes = np.bincount(number, records).astype(np.int64)
        for name, own in zip(self._request.blocks, rows.T, strict=True):
            lacking = int(sizes[own < 0].sum())
            if lacking:
                raise no_block(name, lacking, *self._first_without(name))
        self._block_rows, self._block_sizes = rows, sizes

    def name_block(self, block: int) -> str:
        """The values that the records of a block share."""
        named = zip(self._request.blocks, self._block_rows[block].tolist(), strict=True)
        levels = ((name, self.records.columns[name].levels[code]) for name, code in named)
        return ", ".join(f"{name} {level.as_py()}" for name, level in levels) or "all"

    def check(self, path: Path) -> None:
        """Refuse a folder that holds one of the tables: a run in it would be removed first."""
        for place in (each.piece.place for each in self._places):
            if not is_remote(place) and path.absolute() in Path(place).parents:
                raise ConfigError(f"{place} lies in {path}: choose another output folder")

    def fingerprints(self) -> dict[str, dict[str, Any]]:
        """Number of records of each file, and a checksum of their ids and values."""
        take = self._ray.remote(num_cpus=1)(take_fingerprint)
        columns = self._ray.put(list(self.records.columns.values()))
        tasks = []
        for number, file in enumerate(self.records.files):
            pieces = [
                coded
                for coded, starts in zip(self._coded, self._starts, strict=True)
                if file in starts
            ]
            tasks.append(take.remote(number, columns, pieces))
        return dict(zip(self.records.files, self._get(tasks), strict=True))

    def write(self, path: Path, cuts: Int64s) -> dict[str, dict[str, Any]]:
        """Write the records, cut into parts; return receipts by name."""
        ray, parts = self._ray, len(cuts) - 1
        processors = int(ray.cluster_resources().get("CPU", 1))
        bundles = min(parts, BUNDLES_PER_PROCESSOR * processors)
        edges = np.arange(bundles + 1) * parts // bundles
        shared = [ray.put(self._block_rows), ray.put(self._first_of_block()), cuts, edges]
        columns = [self._request.columns.index(name) for name in self._request.blocks]
        sort = ray.remote(num_cpus=1, num_returns=bundles)(sort_out)
        sent = [
            sort.remote(coded, columns, shared[0], starts, *shared[1:])
            for coded, starts in zip(self._coded, self._starts_in_blocks(), strict=True)
        ]
        sent = [[one] for one in sent] if bundles == 1 else sent
        write = ray.remote(num_cpus=1)(telling)
        folder, none = str(path.absolute()), ray.put(self.records)
        written = [
            write.remote(write_bundle, 1, folder, own, none, *(one[bundle] for one in sent))
            for bundle, own in enumerate(pairwise(edges.tolist()))
        ]
        copied = list(self._copies(folder))
        receipts: dict[str, dict[str, Any]] = dict(self._get(copied))
        for each in self._get(written):
            receipts |= each
        return receipts | write_meaning(path, self.records.columns, self._model.coded)

    def _copies(self, folder: str) -> Iterator[Any]:
        """Tasks that keep the files as they came."""
        copy = self._ray.remote(num_cpus=1)(telling)
        for number, file in enumerate(self.records.files):
            places = [
                place
                for place, starts in zip(self._places, self._starts, strict=True)
                if file in starts
            ]
            schema = self._tables[places[0].table].schema
            yield copy.remote(copy_input, 1, folder, number, file, places, schema, self._request)

    def _first_of_block(self) -> Int64s:
        """The position of each block's first record."""
        return np.concatenate(([0], np.cumsum(self._model.block_sizes)[:-1]))

    def _starts_in_blocks(self) -> Iterator[Int64s | None]:
        """Where the records of each piece, by file and block, stand within their blocks.

        Only where parts end anywhere; within a block, records stand by file, then as they came.
        """
        if not self._model.rotates:
            yield from [None] * len(self._coded)
            return
        file = np.concatenate([one.file for one in self._blocks])
        records = np.concatenate([one.records for one in self._blocks])
        number = number_rows(list(np.concatenate([one.rows for one in self._blocks]).T), len(file))
        order = np.lexsort((np.arange(len(file)), file, number))
        running = np.cumsum(records[order]) - records[order]
        first = np.append(True, np.diff(number[order]) != 0)
        starts = np.empty(len(file), np.int64)
        starts[order] = running - np.repeat(running[first], np.diff(np.append(
            np.flatnonzero(first), len(file))))  # fmt: skip
        ends = np.cumsum([len(one.file) for one in self._blocks])
        yield from np.split(starts, ends[:-1])

    def _first_without(self, name: str) -> tuple[str, int]:
        """The file and the row of the first record without a value in a column."""
        column, files = self._request.columns.index(name), self.records.files
        for number, file in enumerate(files):
            for coded, starts in zip(self._coded, self._starts, strict=True):
                if file in starts:
                    piece: Coded = self._ray.get(coded)
                    own = piece.file == number
                    empty = np.flatnonzero(piece.codes[column][own] < 0)
                    if len(empty):
                        return file, starts[file].row + int(empty[0]) + 1
        raise AssertionError("no record lacks a block")

    def _check_ids(self, found: Sequence[Sequence[Any]]) -> None:
        """Ids must be unique within a file."""
        if self._request.id is None:
            return
        find = self._ray.remote(num_cpus=1)(first_repeated)
        repeated = self._get([find.remote(*bucket) for bucket in zip(*found, strict=True)])
        pairs = [each for each in repeated if each is not None]
        if pairs:
            file, one, two, value = min(pairs)
            raise same_id(self._request.id, self.records.files[file], value, one + 1, two + 1)

    def _each(self, task: Callable[..., Any], returns: int, given: Sequence[Any]) -> list[Any]:
        """Start a task for every piece."""
        remote = self._ray.remote(num_cpus=1, num_returns=returns)(telling)
        return [
            remote.remote(task, returns, place, *arguments)
            for place, arguments in zip(self._places, given, strict=True)
        ]

    def _get(self, tasks: Sequence[Any]) -> list[Any]:
        """What tasks return, or the first mistake that they found."""
        found = list(self._ray.get(list(tasks)))
        for each in found:
            if isinstance(each, SmeredError):
                raise each
        return found

    def _in_turns(self, tasks: list[Any]) -> Iterator[list[Any]]:
        """What tasks return, some at a time; nothing else holds on to it."""
        tasks.reverse()
        while tasks:
            yield self._get([tasks.pop() for _ in range(min(PIECES_AT_ONCE, len(tasks)))])


def find_places(tables: Mapping[str, ParquetTable]) -> Iterator[Place]:
    """All pieces of all tables, in their order."""
    for name, table in tables.items():
        before = 0
        for piece in table.pieces:
            yield Place(piece, name, before)
            before += piece.rows
