"""Where the truth of a run comes from: a column of its inputs, or a table of its own."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from smered.errors import DataError
from smered.records import Records, as_text, plain
from smered.sources import read_sources
from smered.sources.places import is_address
from smered.suggest import suggest

__all__ = ["read_truth"]


def read_truth(
    records: Records, truth: str, id: str | None = None, missing: Sequence[str] = ()
) -> pa.Array:
    """One label per record, null where it is unknown or one of the missing markers.

    `truth` names a column of the input files, or a table with the columns `id` (or the run's id
    column), `file` if there are several files, and one more, the label.
    """
    columns = sorted({name for table in records.inputs.values() for name in table.column_names})
    if truth in columns:
        return masked(from_inputs(records, truth), missing)
    if Path(truth).is_file() or is_address(truth):
        return masked(from_table(records, truth, id), missing)
    raise DataError(f"no input file has a column {truth!r}, and no such file exists; "
                    f"{suggest(truth, columns)}")  # fmt: skip


def masked(labels: pa.Array, missing: Sequence[str]) -> pa.Array:
    """Labels with null for those that mean missing."""
    marked = pc.is_in(labels, value_set=pa.array(missing, pa.string()))
    return pc.if_else(marked, pa.scalar(None, pa.string()), labels)


def labels_of(column: pa.ChunkedArray) -> pa.Array:
    """Labels as text, so that they are the same whatever type a file gave them."""
    return as_text(plain(column)).combine_chunks()


def from_inputs(records: Records, column: str) -> pa.Array:
    """The labels in a column of the inputs; nothing is known of the records of other files."""
    tables = [records.inputs[file] for file in records.files]
    return pa.concat_arrays(
        labels_of(table.column(column))
        if column in table.column_names
        else pa.nulls(len(table), pa.string())
        for table in tables
    )


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
    ids = labels_of(source.table.column(id_column)).to_pylist()
    files = labels_of(source.table.column("file")).to_pylist() if several else [records.files[0]]
    place_of = np.full(len(records), -1, np.int64)
    for row, record_id in enumerate(ids):
        file = files[row] if several else files[0]
        if file is None or record_id is None:
            raise DataError(f"{source.label}: row {row + 1} lacks its {id_column} or file")
        try:
            number = records.position(file, record_id)
        except DataError as error:
            raise DataError(f"{source.label}: row {row + 1}: {error}") from None
        if place_of[number] >= 0:
            raise DataError(
                f"{source.label}: rows {place_of[number] + 1} and {row + 1} are about the same "
                f"record, {record_id} of {file}; leave one"
            )
        place_of[number] = row
    found = labels_of(source.table.column(rest[0]))
    return found.take(pa.array(place_of, mask=place_of < 0))
