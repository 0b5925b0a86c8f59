"""Tables in, coded records out.

Any data frame that narwhals knows (pandas, Polars, Arrow, a DuckDB relation, ...) takes one path:
to Arrow, to clean values, to integer codes. Everything a user can get wrong in a table is found
here, and nowhere later.
"""

import json
import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from smered.errors import DataError, DataWarning, RunError
from smered.layout import Int32s, Int64s
from smered.mistakes import no_block, no_file, no_id, no_levels, same_id
from smered.similar import Neighbours
from smered.suggest import suggest

__all__ = ["Column", "Reading", "Records", "as_text", "check_columns", "code_column"]
__all__ += ["mask_markers", "named_frames", "number_rows", "ordinary", "ordinary_table", "plain"]
__all__ += ["stack_inputs"]

ONE_FILE = "records"  # the file's name when a single frame is given without a file column


@dataclass(frozen=True)
class Column:
    """One coded column: a level number for each record, -1 where the value is missing."""

    name: str
    codes: Int32s
    levels: pa.Array

    def values(self) -> pa.Array:
        """The value of each record, null where it is missing."""
        return self.levels.take(pa.array(self.codes, mask=self.codes < 0))


class Reading(NamedTuple):
    """How the input tables were read: which columns name records and files, what means missing."""

    id: str | None = None
    file_column: str | None = None
    missing: tuple[str, ...] = ()


@dataclass(frozen=True)
class Records:
    """The records of all files in input order, coded, with their ids and blocks."""

    files: tuple[str, ...]
    file: Int32s  # (n,) position in `files`
    ids: pa.Array  # (n,) unique within a file
    columns: Mapping[str, Column]
    block: Int64s  # (n,) block number
    block_columns: tuple[str, ...]
    inputs: Mapping[str, pa.Table] = field(default_factory=dict)  # each file as it came
    neighbours: Mapping[str, Neighbours] = field(default_factory=dict)  # of a field, if found
    reading: Reading = field(default_factory=Reading)

    def __len__(self) -> int:
        return len(self.file)

    @property
    def blocks(self) -> int:
        """Number of blocks; records of different blocks are never linked."""
        return int(self.block.max()) + 1

    @cached_property
    def _positions(self) -> dict[tuple[str, str], int]:
        names = [self.files[f] for f in self.file]
        ids = (str(value) for value in self.ids.to_pylist())
        return {key: i for i, key in enumerate(zip(names, ids, strict=True))}

    def position(self, file: str, record_id: object) -> int:
        """Return the internal number of the record with this id in this file."""
        if file not in self.files:
            raise DataError(f"no file {file!r}; {suggest(file, self.files)}")
        try:
            return self._positions[file, str(record_id)]
        except KeyError:
            raise DataError(f"file {file!r} has no record with id {record_id!r}") from None

    @classmethod
    def from_frames(
        cls,
        frames: Any,
        *,
        columns: Sequence[str],
        id: str | None = None,
        file_column: str | None = None,
        blocks: str | Sequence[str] = (),
        missing: Sequence[str] = (),
    ) -> "Records":
        """Read one frame per file (a mapping from file name to frame) or one frame for all.

        `columns` are coded as levels. `blocks` names one or more columns (a ready block key is
        one column): records that differ in any of them are never linked, and every record needs
        a value in all of them. `missing` lists values, as text, that mean "missing" besides null
        and NaN. Without an `id` column, records are numbered from 1 within their file.
        """
        block_columns = (blocks,) if isinstance(blocks, str) else tuple(blocks)
        tables = read_tables(frames, file_column)
        needed = list(dict.fromkeys([*columns, *block_columns]))
        for name, table in tables.items():
            check_columns(name, table, needed + ([id] if id is not None else []))
        files = tuple(tables)
        sizes = [len(table) for table in tables.values()]
        coded = {
            column: code_column(
                column, {name: table.column(column) for name, table in tables.items()}, missing
            )
            for column in needed
        }
        for column in block_columns:
            check_block_column(coded[column], files, sizes)
        return cls(
            files=files,
            file=np.repeat(np.arange(len(files), dtype=np.int32), sizes),
            ids=read_ids(tables, id),
            columns=coded,
            block=number_rows([coded[column].codes for column in block_columns], sum(sizes)),
            block_columns=block_columns,
            inputs=tables,
            reading=Reading(id, file_column, tuple(missing)),
        )


def stack_inputs(records: Records) -> dict[str, pa.ChunkedArray]:
    """All columns of all input files, one under the other; a file without one has nulls.

    Columns whose type differs between files become text.
    """
    if not records.inputs:
        coded = records.columns.items()
        return {name: pa.chunked_array([column.values()]) for name, column in coded}
    tables = [records.inputs[file] for file in records.files]
    for file, table, size in zip(
        records.files, tables, np.bincount(records.file, minlength=len(tables)), strict=True
    ):
        if len(table) != size:
            raise RunError(f"the table of file {file!r} has {len(table)} rows instead of {size}")
    joined = {}
    for name in dict.fromkeys(name for table in tables for name in table.column_names):
        types = {t.schema.field(name).type for t in tables if name in t.column_names}
        kind = types.pop() if len(types) == 1 else None
        parts = [
            pa.nulls(len(table), kind or pa.string()) if name not in table.column_names
            else table.column(name) if kind else as_text(table.column(name))
            for table in tables
        ]  # fmt: skip
        chunks = [c for part in parts for c in getattr(part, "chunks", [part])]
        joined[name] = pa.chunked_array(chunks, kind or pa.string())
    return joined


def read_tables(frames: Any, file_column: str | None) -> dict[str, pa.Table]:
    """Turn what the user gave into Arrow tables, one per file."""
    tables = {name: to_arrow(frame, name) for name, frame in named_frames(frames).items()}
    if file_column is not None:
        if len(tables) != 1:
            raise DataError("give either one frame per file or a file column, not both")
        ((name, table),) = tables.items()
        tables = split_files(name, table, file_column)
    if not tables:
        raise DataError("no files given; pass at least one table")
    for name, table in tables.items():
        if len(table) == 0:
            raise DataError(f"file {name!r} has no rows; leave it out or fill it")
    return tables


def named_frames(frames: Any) -> dict[str, Any]:
    """What the user gave, by the names of files."""
    named = frames if isinstance(frames, Mapping) else {ONE_FILE: frames}
    return {str(name): frame for name, frame in named.items()}


def to_arrow(frame: Any, name: str) -> pa.Table:
    """Convert any data frame to an Arrow table through narwhals; read Parquet where a path is."""
    import narwhals as nw

    if isinstance(frame, str | os.PathLike):
        from smered.sources import read_source

        frame = read_source(os.fspath(frame)).table
    try:
        wrapped = nw.from_native(frame)
    except TypeError:
        raise DataError(
            f"file {name!r}: {type(frame).__name__} is not a data frame; pass a pandas, Polars, "
            "Arrow or DuckDB table, or the path of a file"
        ) from None
    except nw.exceptions.DuplicateError as error:
        repeated = str(error).rpartition("- ")[2]
        raise DataError(
            f"file {name!r} has a column more than once: {repeated}; rename it"
        ) from None
    if isinstance(wrapped, nw.LazyFrame):
        wrapped = wrapped.collect("pyarrow")
    table = wrapped.to_arrow()
    return ordinary_table(table)


def ordinary_table(table: pa.Table) -> pa.Table:
    """A table of columns whose types every file format holds."""
    for i, column in enumerate(table.schema):
        table = table.set_column(i, column.name, ordinary(table.column(i)))
    return table


def ordinary(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column of a type that every file format holds: no views, extensions or half floats."""
    kind = column.type
    if isinstance(kind, pa.BaseExtensionType):
        column, kind = column.cast(kind.storage_type), kind.storage_type
    if pa.types.is_string_view(kind) or pa.types.is_large_string(kind):
        return column.cast(pa.string())
    if pa.types.is_binary_view(kind) or pa.types.is_large_binary(kind):
        return column.cast(pa.binary())
    if pa.types.is_float16(kind):
        return column.cast(pa.float32())
    if pa.types.is_interval(kind) or pa.types.is_duration(kind):
        return column.cast(pa.int64()) if pa.types.is_duration(kind) else as_text(column)
    return column


def as_text(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Any column as text: lists and structs as JSON, bytes that are no text in hexadecimal."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    try:
        return column.cast(pa.string())
    except pa.ArrowException:
        values = [None if v is None else written(v) for v in column.to_pylist()]
        return pa.chunked_array([pa.array(values, pa.string())])


def written(value: object) -> str:
    """A value that Arrow does not cast to text."""
    if isinstance(value, bytes):
        return value.hex()
    return json.dumps(value, ensure_ascii=False, default=str)


def split_files(name: str, table: pa.Table, file_column: str) -> dict[str, pa.Table]:
    """Cut one table into files by a column, in order of first appearance."""
    check_columns(name, table, [file_column])
    column = plain(table.column(file_column)).cast(pa.string())
    if column.null_count:
        raise no_file(file_column, pc.index(pc.is_null(column), True).as_py() + 1)
    return {file: table.filter(pc.equal(column, file)) for file in pc.unique(column).to_pylist()}


def check_columns(file: str, table: pa.Table, needed: Sequence[str]) -> None:
    """Refuse a file that lacks a column."""
    names = table.column_names
    for column in needed:
        if column not in names:
            raise DataError(f"file {file!r} has no column {column!r}; {suggest(column, names)}")


def plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Undo encodings: dictionaries, large and view strings, NaN, whole numbers held as floats."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if pa.types.is_large_string(column.type) or pa.types.is_string_view(column.type):
        column = column.cast(pa.string())
    if pa.types.is_floating(column.type):
        column = pc.if_else(pc.is_nan(column), pa.scalar(None, column.type), column)
        whole = pc.all(pc.equal(column, pc.round(column))).as_py()
        largest = pc.max(pc.abs(column)).as_py()
        if largest is not None and whole and largest < 2**53:
            column = column.cast(pa.int64())
    elif pa.types.is_integer(column.type) and not pa.types.is_uint64(column.type):
        column = column.cast(pa.int64())
    return column


def mask_markers(column: pa.ChunkedArray, missing: Sequence[str]) -> pa.ChunkedArray:
    """Replace values whose text is one of the missing markers by null."""
    if not missing or pa.types.is_null(column.type):
        return column
    marked = pc.is_in(as_text(column), value_set=pa.array(missing, pa.string()))
    return pc.if_else(marked, pa.scalar(None, column.type), column)


def code_column(name: str, parts: Mapping[str, pa.ChunkedArray], missing: Sequence[str]) -> Column:
    """Code one column of all files with one set of sorted levels."""
    # Markers go first: a column of numbers and "NA" is text until they are gone.
    cleaned = {file: plain(mask_markers(plain(part), missing)) for file, part in parts.items()}
    types = {part.type for part in cleaned.values() if not pa.types.is_null(part.type)}
    if len(types) > 1:
        kinds = ", ".join(f"{file!r}: {part.type}" for file, part in cleaned.items())
        warnings.warn(
            f"column {name!r} has different types ({kinds}); its values are compared as text",
            DataWarning,
            stacklevel=4,
        )
        types = {pa.string()}
    target = types.pop() if types else pa.string()
    try:
        joined = pa.chunked_array(
            [chunk for part in cleaned.values() for chunk in part.cast(target).chunks], target
        )
        encoded = joined.combine_chunks().dictionary_encode()
        levels = encoded.dictionary
        order = pc.array_sort_indices(levels).to_numpy()
        levels.slice(0, 1000).cast(pa.string())  # levels are named in what users get
    except pa.ArrowException:
        raise no_levels(name, target) from None
    rank = np.empty(len(order) + 1, np.int32)
    rank[order] = np.arange(len(order), dtype=np.int32)
    rank[-1] = -1
    codes = rank[encoded.indices.fill_null(len(order)).to_numpy()]
    return Column(name, codes, levels.take(pa.array(order)))


def check_block_column(column: Column, files: Sequence[str], sizes: Sequence[int]) -> None:
    """Every record needs a block: a missing key could belong to any of them."""
    empty = np.flatnonzero(column.codes < 0)
    if len(empty):
        raise no_block(column.name, len(empty), *locate(int(empty[0]), files, sizes))


def locate(position: int, files: Sequence[str], sizes: Sequence[int]) -> tuple[str, int]:
    """Return the file of a record and its row there, counted from 1."""
    starts = np.concatenate(([0], np.cumsum(sizes)))
    file = int(np.searchsorted(starts, position, side="right")) - 1
    return files[file], position - int(starts[file]) + 1


def read_ids(tables: Mapping[str, pa.Table], column: str | None) -> pa.Array:
    """Collect the record ids of all files as text, refusing missing and repeated ones."""
    parts = []
    for file, table in tables.items():
        if column is None:
            parts.append(pa.array(np.arange(1, len(table) + 1)).cast(pa.string()))
            continue
        ids = plain(table.column(column)).cast(pa.string()).combine_chunks()
        if ids.null_count:
            raise no_id(column, file, pc.index(pc.is_null(ids), True).as_py() + 1)
        encoded = ids.dictionary_encode()
        if len(encoded.dictionary) < len(ids):
            codes = encoded.indices.to_numpy()
            repeated = int(np.flatnonzero(np.bincount(codes) > 1)[0])
            rows = np.flatnonzero(codes == repeated)[:2] + 1
            raise same_id(column, file, encoded.dictionary[repeated].as_py(), *rows.tolist())
        parts.append(ids)
    return pa.concat_arrays(parts)


def number_rows(codes: Sequence[Int32s], rows: int) -> Int64s:
    """Number the distinct rows of several code columns, in sorted order of the codes."""
    numbers = np.zeros(rows, np.int64)
    for code in codes:
        # codes may be -1; numbers < rows and code + 1 <= rows, so the key fits 64 bits
        key = numbers * (int(code.max(initial=-1)) + 2) + (code + 1)
        numbers = np.unique(key, return_inverse=True)[1].astype(np.int64)
    return numbers
