"""Tasks on pieces of tables: looking at values, coding them, sorting records into parts."""

import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from smered.errors import RunError, SmeredError
from smered.execute.on_ray.outline import count_records
from smered.fields import Field
from smered.layout import Int32s, Int64s
from smered.mistakes import no_file, no_id, no_levels
from smered.records import Column, Records, number_rows, ordinary_table, plain
from smered.sources.parquet import Piece, read_piece
from smered.store.disk import write_pieces, write_table
from smered.store.records import fingerprint, input_name, part_name, part_table
from smered.store.target import LOCK

__all__ = ["Blocks", "Coded", "Codes", "Look", "Place", "Request", "Start", "check_shared"]
__all__ += ["code", "copy_input", "find_starts", "first_repeated", "look", "sort_out"]
__all__ += ["take_fingerprint", "telling", "write_bundle"]


class Request(NamedTuple):
    """What is read of the tables, and how."""

    columns: tuple[str, ...]  # to be coded, those of blocks among them
    id: str | None
    file_column: str | None
    blocks: tuple[str, ...]
    buckets: int  # of ids, which are compared bucket by bucket

    @property
    def needed(self) -> list[str]:
        """Every column that is read, once."""
        named = [*self.columns, self.id, self.file_column]
        return list(dict.fromkeys(name for name in named if name is not None))


class Place(NamedTuple):
    """A piece of a table, and what stands before it there."""

    piece: Piece
    table: str
    before: int  # rows of the table


class Look(NamedTuple):
    """What the first pass finds of a file in a piece."""

    rows: int
    values: dict[str, pa.Array]  # the distinct values of each column, unless they were merged
    whole_ids: bool  # whether ids that are floats are whole numbers


class Start(NamedTuple):
    """Where a file's rows of a piece stand."""

    file: int
    row: int  # within the file
    record: int  # among all records


class Coded(NamedTuple):
    """The records of a piece."""

    record: Int64s
    file: Int32s
    ids: pa.Array
    codes: list[Int32s]  # by column


class Codes(NamedTuple):
    """What becomes of the values of a file's column."""

    values: pa.Array
    codes: Int32s


class Blocks(NamedTuple):
    """The blocks of a piece: codes of the columns of blocks, and records of each (file, block)."""

    rows: Int32s  # (b, columns)
    file: Int32s  # (b,)
    records: Int64s  # (b,)


class Ids(NamedTuple):
    """Ids of one bucket."""

    file: Int32s
    row: Int64s
    ids: pa.Array


class Sorted(NamedTuple):
    """Records on their way to the parts of a bundle."""

    coded: Coded
    block: Int64s
    part: Int64s


def telling(task: Callable[..., Any], returns: int, *arguments: Any) -> Any:
    """Do a task that returns so many things; if a user made a mistake, each is the error.

    Ray would print an error that is raised, and which comes first would be left to chance.
    """
    try:
        return task(*arguments)
    except SmeredError as error:
        return error if returns == 1 else (error,) * returns


def read_files(
    place: Place, request: Request, columns: Sequence[str] | None
) -> dict[str, pa.Table]:
    """Read a piece: its table, or with a file column those of the files in it."""
    table = ordinary_table(read_piece(place.piece, columns))
    name = request.file_column
    if name is None:
        return {place.table: table}
    column = plain(table.column(name)).cast(pa.string())
    if column.null_count:
        raise no_file(name, place.before + pc.index(pc.is_null(column), True).as_py() + 1)
    return {file: table.filter(pc.equal(column, file)) for file in pc.unique(column).to_pylist()}


def decoded(column: pa.ChunkedArray) -> pa.Array:
    """A column without dictionaries, in one piece."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    return column.combine_chunks()


def distinct(name: str, column: pa.ChunkedArray) -> pa.Array:
    """The distinct values of a column."""
    try:
        return pc.unique(decoded(column))
    except pa.ArrowException:
        raise no_levels(name, column.type) from None


def look(place: Place, request: Request) -> dict[str, Look]:
    """Find the values of a piece."""
    found = {}
    for file, table in read_files(place, request, request.needed).items():
        values = {name: distinct(name, table.column(name)) for name in request.columns}
        whole = True
        if request.id is not None and pa.types.is_floating(table.schema.field(request.id).type):
            whole = pa.types.is_integer(plain(table.column(request.id)).type)
        found[file] = Look(len(table), values, whole)
    return found


def code(
    place: Place,
    request: Request,
    starts: Mapping[str, Start],
    codes: Mapping[tuple[str, str], Codes],
    whole_ids: Mapping[str, bool],
    fields: Sequence[Field],
    none: Records,
) -> tuple[Any, ...]:
    """Code a piece; return it, its counts, its blocks, and its ids by bucket."""
    pieces, rows_of_files = [], []
    for file, table in read_files(place, request, request.needed).items():
        start, rows = starts[file], np.arange(len(table))
        rows_of_files.append(start.row + rows)
        found = [
            codes[file, name].codes[
                pc.index_in(decoded(table.column(name)), value_set=codes[file, name].values)
                .to_numpy()
            ]
            for name in request.columns
        ]  # fmt: skip
        ids = read_ids(table, file, start, request.id, whole_ids[file])
        pieces.append(Coded(start.record + rows, np.full(len(table), start.file, np.int32), ids,
                            found))  # fmt: skip
    coded = join(pieces)
    columns = {
        name: replace(none.columns[name], codes=own)
        for name, own in zip(request.columns, coded.codes, strict=True)
    }
    records = replace(none, file=coded.file, ids=coded.ids, columns=columns,
                      block=np.zeros(len(coded.file), np.int64))  # fmt: skip
    blocks = find_blocks(records, request.blocks)
    counts = count_records(fields, records)
    if request.id is None:
        return coded, counts, blocks
    row = np.concatenate(rows_of_files)
    bucket = hash_texts(coded.ids) % request.buckets
    chosen = (np.flatnonzero(bucket == each) for each in range(request.buckets))
    buckets = (Ids(coded.file[own], row[own], coded.ids.take(pa.array(own))) for own in chosen)
    return coded, counts, blocks, *buckets


def join(pieces: Sequence[Coded]) -> Coded:
    """Coded records, one piece after the other."""
    return Coded(
        np.concatenate([piece.record for piece in pieces]),
        np.concatenate([piece.file for piece in pieces]),
        pa.concat_arrays([piece.ids for piece in pieces]),
        [np.concatenate(own) for own in zip(*(piece.codes for piece in pieces), strict=True)],
    )


def read_ids(table: pa.Table, file: str, start: Start, column: str | None, whole: bool) -> pa.Array:
    """The ids of a file's rows in a piece, as text."""
    if column is None:
        return pa.array(np.arange(start.row + 1, start.row + 1 + len(table))).cast(pa.string())
    ids = decoded(table.column(column))
    if pa.types.is_floating(ids.type):
        ids = pc.if_else(pc.is_nan(ids), pa.scalar(None, ids.type), ids)
        ids = ids.cast(pa.int64()) if whole else ids
    ids = ids.cast(pa.string())
    if ids.null_count:
        raise no_id(column, file, start.row + pc.index(pc.is_null(ids), True).as_py() + 1)
    return ids


def hash_texts(texts: pa.Array) -> Int64s:
    """A number for each text, the same on every machine: a sum over its bytes."""
    offsets = np.frombuffer(texts.buffers()[1], np.int32)[texts.offset :][: len(texts) + 1]
    content = np.frombuffer(texts.buffers()[2] or b"", np.uint8)
    place = np.arange(int(offsets[0]), int(offsets[-1])) - np.repeat(offsets[:-1], np.diff(offsets))
    weighed = content[offsets[0] : offsets[-1]].astype(np.int64) * (2 * place + 1)
    running = np.concatenate(([0], np.cumsum(weighed)))
    return running[offsets[1:] - offsets[0]] - running[offsets[:-1] - offsets[0]]


def find_blocks(records: Records, columns: Sequence[str]) -> Blocks:
    """Count the records of a piece by file and block."""
    codes = block_codes([records.columns[name].codes for name in columns], len(records))
    key = [records.file, *codes.T]
    number = number_rows(key, len(records))
    first = np.unique(number, return_index=True)[1]
    return Blocks(codes[first], records.file[first], np.bincount(number, minlength=len(first)))


def block_codes(columns: Sequence[Int32s], records: int) -> Int32s:
    """The codes of the columns of blocks (n, columns)."""
    if not columns:
        return np.empty((records, 0), np.int32)
    return np.stack(columns, axis=1)


def first_repeated(*pieces: Ids) -> tuple[int, int, int, str] | None:
    """The first file, row and other row that have the same id, and the id."""
    file = np.concatenate([piece.file for piece in pieces])
    row = np.concatenate([piece.row for piece in pieces])
    ids = pa.concat_arrays([piece.ids for piece in pieces])
    code = ids.dictionary_encode().indices.to_numpy().astype(np.int64)
    order = np.lexsort((row, code, file))
    same = (file[order][1:] == file[order][:-1]) & (code[order][1:] == code[order][:-1])
    pairs = [
        (int(file[one]), int(row[one]), int(row[two]), one)
        for one, two in zip(order[:-1][same], order[1:][same], strict=True)
    ]
    if not pairs:
        return None
    found, first, second, at = min(pairs)
    return found, first, second, ids[int(at)].as_py()


def sort_out(
    coded: Coded,
    columns: Sequence[int],
    blocks: Int32s,
    starts: Int64s | None,
    first_of_block: Int64s,
    cuts: Int64s,
    bundles: Int64s,
) -> Any:
    """Give each bundle of parts its records of a piece.

    `blocks` are the codes of all blocks; `starts` is where the piece's first record of each (file,
    block) stands within its block, where parts end anywhere.
    """
    codes = block_codes([coded.codes[column] for column in columns], len(coded.record))
    both = np.concatenate((blocks, codes))
    block = number_rows(list(both.T), len(both))[len(blocks) :]
    position = first_of_block[block]
    if starts is not None:
        group = number_rows([coded.file, *codes.T], len(coded.record))
        by_group = np.lexsort((coded.record, group))
        size = np.bincount(group)
        within = np.empty(len(group), np.int64)
        within[by_group] = np.arange(len(group)) - np.repeat(np.cumsum(size) - size, size)
        position = position + starts[group] + within
    part = np.searchsorted(cuts, position, side="right") - 1
    bundle = np.searchsorted(bundles, part, side="right") - 1
    chosen = (np.flatnonzero(bundle == each) for each in range(len(bundles) - 1))
    sent = tuple(
        Sorted(
            Coded(coded.record[own], coded.file[own], coded.ids.take(pa.array(own)),
                  [each[own] for each in coded.codes]),
            block[own],
            part[own],
        )
        for own in chosen
    )  # fmt: skip
    return sent if len(sent) > 1 else sent[0]


def check_shared(path: Path, name: str) -> None:
    """Refuse a node that does not see the run folder, which holds such a file."""
    if not (path / name).exists():
        raise RunError(
            f"{socket.gethostname()} does not see {path}: keep the run folder where all nodes "
            "of the cluster find it under the same path"
        )


def write_bundle(
    path: str, parts: tuple[int, int], none: Records, *pieces: Sorted
) -> dict[str, dict[str, Any]]:
    """Write the parts of a bundle; return receipts."""
    check_shared(Path(path), LOCK)
    coded = join([piece.coded for piece in pieces])
    block = np.concatenate([piece.block for piece in pieces])
    part = np.concatenate([piece.part for piece in pieces])
    columns = {
        name: replace(column, codes=codes)
        for (name, column), codes in zip(none.columns.items(), coded.codes, strict=True)
    }
    records = replace(none, file=coded.file, ids=coded.ids, columns=columns, block=block)
    order = np.lexsort((coded.record, block))
    receipts = {}
    for each in range(*parts):
        rows = order[part[order] == each]
        name = part_name(each)
        receipts[name] = write_table(
            Path(path) / name, part_table(records, rows, coded.record[rows])
        )
    return receipts


def copy_input(
    path: str, number: int, file: str, places: Sequence[Place], schema: pa.Schema, request: Request
) -> tuple[str, dict[str, Any]]:
    """Keep a file as it came."""
    check_shared(Path(path), LOCK)
    pieces = (read_files(place, request, None) for place in places)
    tables = (piece[file] for piece in pieces if file in piece)
    name = input_name(number)
    return name, write_pieces(
        Path(path) / name, ordinary_table(schema.empty_table()).schema, tables
    )


def take_fingerprint(
    number: int, columns: Sequence[Column], pieces: Sequence[Any]
) -> dict[str, Any]:
    """The fingerprint of a file, from coded pieces in the object store, one at a time."""
    import ray

    def each() -> Iterator[tuple[pa.Array, Sequence[Int32s]]]:
        for piece in pieces:
            coded: Coded = ray.get(piece)
            own = coded.file == number
            if own.any():
                yield coded.ids.filter(pa.array(own)), [codes[own] for codes in coded.codes]

    return fingerprint(columns, each)


def find_starts(
    looks: Sequence[Mapping[str, Look]], files: Sequence[str], sizes: Mapping[str, int]
) -> Iterator[dict[str, Start]]:
    """Where the rows of each file in each piece stand."""
    base = dict(zip(files, np.cumsum([0, *sizes.values()]).tolist(), strict=False))
    rows = dict.fromkeys(files, 0)
    for found in looks:
        yield {
            file: Start(files.index(file), rows[file], base[file] + rows[file]) for file in found
        }
        for file, one in found.items():
            rows[file] += one.rows
