"""Where the truth of a run comes from: a column of its inputs, or a table of its own."""

from pathlib import Path

import numpy as np
import pyarrow as pa

from smered.errors import DataError
from smered.records import Records, plain, suggest
from smered.sources import read_sources

__all__ = ["read_truth"]


def read_truth(records: Records, truth: str, id: str | None = None) -> pa.Array:
    """One label per record, null where it is unknown.

    `truth` names a column of the input files, or a table with the columns `id` (or the run's id
    column), `file` if there are several files, and one more, the label.
    """
    columns = sorted({name for table in records.inputs.values() for name in table.column_names})
    if truth in columns:
        return from_inputs(records, truth)
    if Path(truth).is_file() or ":" in truth:
        return from_table(records, truth, id)
    raise DataError(f"no input file has a column {truth!r}, and no such file exists; "
                    f"{suggest(truth, columns)}")  # fmt: skip


def as_text(column: pa.ChunkedArray) -> pa.Array:
    """Labels as text, so that they are the same whatever type a file gave them."""
    return plain(column).cast(pa.string()).combine_chunks()


def from_inputs(records: Records, column: str) -> pa.Array:
    """The labels in a column of the inputs."""
    parts = []
    for file in records.files:
        table = records.inputs[file]
        if column not in table.column_names:
            raise DataError(f"file {file!r} has no truth column {column!r}")
        parts.append(as_text(table.column(column)))
    return pa.concat_arrays(parts)


def from_table(records: Records, place: str, id: str | None) -> pa.Array:
    """The labels in a table of their own."""
    source = next(iter(read_sources([place]).values()))
    names = source.table.column_names
    id_column = id if id in names else "id"
    several = len(records.files) > 1
    for needed in [id_column, "file"] if several else [id_column]:
        if needed not in names:
            raise DataError(
                f"{source.label} has no column {needed!r}; a table of the truth needs the columns "
                f"{'file, ' if several else ''}{id_column} and one more, the label"
            )
    rest = [name for name in names if name not in (id_column, "file")]
    if len(rest) != 1:
        raise DataError(
            f"{source.label} has {len(rest)} columns besides its ids ({', '.join(rest)}); leave "
            "one, the label"
        )
    ids = as_text(source.table.column(id_column)).to_pylist()
    files = as_text(source.table.column("file")).to_pylist() if several else [None] * len(ids)
    found = as_text(source.table.column(rest[0]))
    place_of = np.full(len(records), -1, np.int64)
    for row, (file, record_id) in enumerate(zip(files, ids, strict=True)):
        place_of[records.position(file or records.files[0], record_id)] = row
    return found.take(pa.array(place_of, mask=place_of < 0))
