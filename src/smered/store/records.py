"""The records of a run on disk: ids, files, blocks, coded columns, and what the codes mean."""

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from smered.errors import RunError
from smered.records import Column, Records
from smered.store.disk import read_table, write_table
from smered.store.schema import RunFile

__all__ = ["fingerprints", "read_records", "write_records"]

RECORDS, LEVELS = "records/records.parquet", "records/levels.parquet"
PREFIX = "code:"  # before the names of input columns


def write_records(path: Path, records: Records) -> dict[str, dict[str, Any]]:
    """Write records and levels; return their receipts."""
    files = pa.DictionaryArray.from_arrays(pa.array(records.file), pa.array(records.files))
    table = {
        "record": pa.array(np.arange(len(records), dtype=np.int32)),
        "file": files.cast(pa.string()),
        "id": records.ids,
        "block": pa.array(records.block),
    } | {PREFIX + name: pa.array(column.codes) for name, column in records.columns.items()}
    levels = pa.table(
        {
            "column": pa.concat_arrays(
                [
                    pa.array([name] * len(c.levels), pa.string())
                    for name, c in records.columns.items()
                ]
            ),
            "code": np.concatenate(
                [np.arange(len(c.levels), dtype=np.int32) for c in records.columns.values()]
            ),
            "level": pa.concat_arrays(
                [c.levels.cast(pa.string()) for c in records.columns.values()]
            ),
        }
    )
    return {
        RECORDS: write_table(path / RECORDS, pa.table(table)),
        LEVELS: write_table(path / LEVELS, levels),
    }


def fingerprints(records: Records) -> dict[str, dict[str, Any]]:
    """Number of records of each file, and a checksum of their ids and values."""
    found = {}
    for number, file in enumerate(records.files):
        own = records.file == number
        digest = hashlib.sha256("\x1f".join(records.ids.filter(own).to_pylist()).encode())
        for name, column in records.columns.items():
            levels = column.levels.cast(pa.string()).to_pylist()
            digest.update("\x1f".join([name, *levels]).encode())
            digest.update(column.codes[own].tobytes())
        found[file] = {"records": int(own.sum()), "sha256": digest.hexdigest()}
    return found


def read_records(path: Path, content: RunFile) -> Records:
    """Read back what `write_records` wrote, checking that codes and levels fit."""
    if not {RECORDS, LEVELS} <= set(content.contents):
        raise RunError(f"{path}: run.json lists no records")
    table, levels = (
        read_table(path / name, content.contents[name].bytes, content.contents[name].sha256)
        for name in (RECORDS, LEVELS)
    )
    files = tuple(content.files)
    try:
        file = pa.compute.index_in(table["file"], value_set=pa.array(files)).to_numpy()
        columns = {}
        for name in table.column_names:
            if name.startswith(PREFIX):
                own = levels.filter(pa.compute.equal(levels["column"], name[len(PREFIX) :]))
                codes = table[name].to_numpy().astype(np.int32)
                if codes.min(initial=-1) < -1 or codes.max(initial=-1) >= len(own):
                    raise RunError(f"{path / RECORDS} is damaged: {name} has codes without a level")
                level = own["level"].combine_chunks()
                columns[name[len(PREFIX) :]] = Column(name[len(PREFIX) :], codes, level)
        block = table["block"].to_numpy().astype(np.int64)
        ids = table["id"].combine_chunks()
    except (KeyError, ValueError, pa.ArrowException) as error:
        raise RunError(f"{path / RECORDS} is damaged: {error}") from None
    n = len(table)
    if n == 0 or n != content.records or len(np.unique(block)) != block.max() + 1:
        raise RunError(f"{path / RECORDS} is damaged: its records are not those of {path}")
    return Records(
        files=files,
        file=file.astype(np.int32),
        ids=ids,
        columns=columns,
        block=block,
        block_columns=tuple(content.block_columns),
    )
