"""The records of a run on disk: ids, files, blocks, coded columns, and what the codes mean."""

import hashlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from smered.errors import RunError
from smered.fields import CodedField
from smered.layout import Int32s, Int64s
from smered.records import Column, Records
from smered.similar import Neighbours
from smered.store.disk import as_numpy, read_table, write_table
from smered.store.schema import RunFile

__all__ = [
    "as_records",
    "fingerprint",
    "fingerprints",
    "input_name",
    "part_name",
    "part_table",
    "read_part",
]
__all__ += ["read_records", "write_meaning", "write_records"]

LEVELS = "records/levels.parquet"
NEIGHBOURS = "records/neighbours.parquet"
PREFIX = "code:"  # before the names of input columns
RECORD = pa.schema(
    [("record", pa.int32()), ("file", pa.string()), ("id", pa.string()), ("block", pa.int64())]
)


def write_records(
    path: Path, records: Records, fields: Sequence[CodedField], order: Int64s, cuts: Int64s
) -> dict[str, dict[str, Any]]:
    """Write records, part by part in kernel order, levels and similar values; return receipts."""
    tables = {
        part_name(part): part_table(records, order[first:last])
        for part, (first, last) in enumerate(pairwise(cuts.tolist()))
    }
    tables |= {input_name(records.files.index(file)): t for file, t in records.inputs.items()}
    receipts = {name: write_table(path / name, content) for name, content in tables.items()}
    return receipts | write_meaning(path, records.columns, fields)


def write_meaning(
    path: Path, columns: Mapping[str, Column], fields: Sequence[CodedField]
) -> dict[str, dict[str, Any]]:
    """Write what codes mean: levels, and similar values; return receipts."""
    tables = {
        LEVELS: pa.table(
            {
                "column": pa.concat_arrays(
                    [pa.array([name] * len(c.levels), pa.string()) for name, c in columns.items()]
                ),
                "code": np.concatenate(
                    [np.arange(len(c.levels), dtype=np.int32) for c in columns.values()]
                ),
                "level": pa.concat_arrays([c.levels.cast(pa.string()) for c in columns.values()]),
            }
        )
    }
    near = [part for part in fields if part.similar is not None]
    if near:
        tables[NEIGHBOURS] = pa.concat_tables([neighbours_table(part) for part in near])
    return {name: write_table(path / name, content) for name, content in tables.items()}


def part_name(part: int) -> str:
    """Where the records of a part are kept."""
    return f"records/part-{part:04d}.parquet"


def part_table(records: Records, rows: Int64s, number: Int64s | None = None) -> pa.Table:
    """Some records: their numbers (default: `rows`), files, ids, blocks and codes."""
    taken = pa.array(rows)
    files = pa.DictionaryArray.from_arrays(
        pa.array(records.file[rows]), pa.array(records.files, pa.string())
    )
    number = rows if number is None else number
    return pa.table(
        {
            "record": pa.array(number.astype(np.int32)),
            "file": files.cast(pa.string()),
            "id": records.ids.take(taken),
            "block": pa.array(records.block[rows]),
        }
        | {PREFIX + name: pa.array(one.codes[rows]) for name, one in records.columns.items()}
    )


def neighbours_table(part: CodedField) -> pa.Table:
    """The similar values of a field, each pair from both sides."""
    found = part.neighbours
    level = np.repeat(np.arange(len(found.start) - 1, dtype=np.int32), np.diff(found.start))
    names = pa.DictionaryArray.from_arrays(pa.array(np.zeros(len(level), np.int32)), [part.name])
    return pa.table(
        {
            "field": names.cast(pa.string()),
            "code": level,
            "neighbour": found.level,
            "similarity": found.similarity,
        }
    )


class StoredNeighbours(Mapping[str, Neighbours]):
    """The similar values of a run's fields, read when they are asked for."""

    def __init__(self, path: Path, content: RunFile, columns: Mapping[str, Column]) -> None:
        self._path, self._receipt = path / NEIGHBOURS, content.contents.get(NEIGHBOURS)
        self._values = {name: len(column.levels) for name, column in columns.items()}

    @cached_property
    def _table(self) -> pa.Table:
        if self._receipt is None:
            raise RunError(f"{self._path} is missing: run.json does not list it")
        return read_table(self._path, self._receipt.bytes, self._receipt.sha256)

    def __getitem__(self, field: str) -> Neighbours:
        values = self._values[field]
        own = self._table.filter(pc.equal(self._table["field"], field))
        code, level = (as_numpy(own[name].combine_chunks()) for name in ("code", "neighbour"))
        similarity = as_numpy(own["similarity"].combine_chunks())
        inside = len(code) == 0 or (min(code.min(), level.min()) >= 0 and
                                    max(code.max(), level.max()) < values)  # fmt: skip
        sound = (np.diff(code) >= 0).all() and ((similarity >= 0) & (similarity <= 1)).all()
        if not (inside and sound):
            raise RunError(f"{self._path} is damaged: it lists values that {field!r} does not have")
        start = np.searchsorted(code, np.arange(values + 1))
        return Neighbours(start, level.astype(np.int32), similarity)

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)


def input_name(number: int) -> str:
    """Where the table of a file is kept as it came."""
    return f"records/input-{number}.parquet"


class StoredInputs(Mapping[str, pa.Table]):
    """The input tables of a run, each read when it is asked for."""

    def __init__(self, path: Path, content: RunFile) -> None:
        self._path, self._most = path, content.records
        self._receipts = {
            file: (name, content.contents[name])
            for number, file in enumerate(content.files)
            if (name := input_name(number)) in content.contents
        }

    def __getitem__(self, file: str) -> pa.Table:
        name, receipt = self._receipts[file]
        return read_table(self._path / name, receipt.bytes, receipt.sha256, most_rows=self._most)

    def __iter__(self) -> Iterator[str]:
        return iter(self._receipts)

    def __len__(self) -> int:
        return len(self._receipts)


def fingerprints(records: Records) -> dict[str, dict[str, Any]]:
    """Number of records of each file, and a checksum of their ids and values."""
    found = {}
    for number, file in enumerate(records.files):
        own = records.file == number
        ids = records.ids.filter(own)
        codes = [column.codes[own] for column in records.columns.values()]
        found[file] = fingerprint(records.columns.values(), lambda: iter([(ids, codes)]))  # noqa: B023
    return found


def fingerprint(
    columns: Collection[Column], pieces: Callable[[], Iterator[tuple[pa.Array, Sequence[Int32s]]]]
) -> dict[str, Any]:
    """Number of records of a file, and a checksum of their ids and values.

    `pieces` gives the ids of some records after others, and their codes by column; it is asked
    once for the ids and once for each column.
    """
    digest, records = hashlib.sha256(), 0
    for ids, _ in pieces():
        text = "\x1f".join(ids.to_pylist())
        digest.update(("\x1f" * (records > 0) + text).encode())
        records += len(ids)
    for number, column in enumerate(columns):
        levels = column.levels.cast(pa.string()).to_pylist()
        digest.update("\x1f".join([column.name, *levels]).encode())
        for _, codes in pieces():
            digest.update(codes[number].tobytes())
    return {"records": records, "sha256": digest.hexdigest()}


def read_records(path: Path, content: RunFile) -> Records:
    """Read back what `write_records` wrote, checking that codes and levels fit."""
    parts = range(len(content.parts) - 1)
    table = pa.concat_tables([read_part(path, content, part) for part in parts])
    number = as_numpy(table["record"].combine_chunks())
    n = len(table)
    if n == 0 or n != content.records or not np.array_equal(np.sort(number), np.arange(n)):
        raise RunError(f"{path} is damaged: its records are not those of run.json")
    records = as_records(path, content, table.take(pa.array(np.argsort(number))))
    if len(np.unique(records.block)) != records.block.max() + 1:
        raise RunError(f"{path} is damaged: there are blocks without records")
    return records


def read_part(path: Path, content: RunFile, part: int) -> pa.Table:
    """The records of a part, in kernel order."""
    name = part_name(part)
    if name not in content.contents:
        raise RunError(f"{path}: run.json lists no {name}")
    receipt = content.contents[name]
    rows = content.parts[part + 1] - content.parts[part]
    table = read_table(path / name, receipt.bytes, receipt.sha256, most_rows=rows)
    codes = [own for own in table.column_names if own.startswith(PREFIX)]
    try:
        table = table.select([*RECORD.names, *codes]).cast(
            pa.schema([*RECORD, *(pa.field(own, pa.int32()) for own in codes)])
        )
        table.validate(full=True)
    except (KeyError, ValueError, pa.ArrowException) as error:
        raise RunError(f"{path / name} is damaged: {error}") from None
    if len(table) != rows or any(column.null_count for column in table.columns):
        raise RunError(f"{path / name} is damaged: it lacks records or their numbers")
    return table


def as_records(path: Path, content: RunFile, table: pa.Table) -> Records:
    """Records of a run from a table of them."""
    if LEVELS not in content.contents:
        raise RunError(f"{path}: run.json lists no levels")
    receipt = content.contents[LEVELS]
    levels = read_table(path / LEVELS, receipt.bytes, receipt.sha256)
    files = tuple(content.files)
    try:
        encoded = table["file"].combine_chunks().dictionary_encode()
        named = np.array([files.index(name) for name in encoded.dictionary.to_pylist()], np.int32)
        file = named[as_numpy(encoded.indices)] if len(table) else np.empty(0, np.int32)
        spans = level_spans(levels["column"].to_pylist())
        columns = {}
        for name in table.column_names:
            if name.startswith(PREFIX):
                own = levels.slice(*spans.get(name[len(PREFIX) :], (0, 0)))
                codes = as_numpy(table[name].combine_chunks()).astype(np.int32)
                if codes.min(initial=-1) < -1 or codes.max(initial=-1) >= len(own):
                    raise RunError(f"{path} is damaged: {name} has codes without a level")
                level = own["level"].combine_chunks()
                columns[name[len(PREFIX) :]] = Column(name[len(PREFIX) :], codes, level)
        block = as_numpy(table["block"].combine_chunks()).astype(np.int64)
        ids = table["id"].combine_chunks()
    except (KeyError, ValueError, pa.ArrowException) as error:
        raise RunError(f"the records of {path} are damaged: {error}") from None
    return Records(
        files=files,
        file=file,
        ids=ids,
        columns=columns,
        block=block,
        block_columns=tuple(content.block_columns),
        inputs=StoredInputs(path, content),
        neighbours=StoredNeighbours(path, content, columns),
        reading=content.reading,
    )


def level_spans(columns: list[str]) -> dict[str, tuple[int, int]]:
    """First level and number of levels of each column; they stand one after the other."""
    spans, start = {}, 0
    for name, group in groupby(columns):
        spans[name] = (start, len(list(group)))
        start += spans[name][1]
    return spans
