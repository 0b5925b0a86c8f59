"""Linked data sets as multiple imputations, in the layout of R's mice and Stata's mi."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from smered.errors import ConfigError
from smered.layout import Int64s
from smered.outputs import FORMATS, flattened, neutralised
from smered.posterior import Posterior
from smered.posterior.canonical import free_name
from smered.posterior.linked import Imputations, Layout
from smered.store.disk import write_whole

__all__ = ["stacked", "write_imputations"]

NUMBER, ROW = "imputation", "row"


def write_imputations(
    posterior: Posterior,
    folder: Path,
    m: int,
    *,
    layout: Layout = "wide",
    formats: Sequence[str] = FORMATS,
    raw: bool = False,
) -> list[Path]:
    """Write m linked data sets one under the other, as CSV and Parquet; return the files.

    Data sets are written one at a time, so that memory does not grow with their number. `raw`
    leaves values in CSV files that a spreadsheet would read as formulas.
    """
    for kind in formats:
        if kind not in FORMATS:
            raise ConfigError(f"format {kind!r} must be one of: {', '.join(FORMATS)}")
    sets = posterior.imputations(m, layout=layout)
    written = []
    for kind in formats:

        def write(sink: IO[bytes], kind: str = kind) -> None:
            writer: pa_csv.CSVWriter | pq.ParquetWriter | None = None
            for table in stacked(sets, posterior):
                if kind == "csv":
                    flat = flattened(table)
                    table = flat if raw else neutralised(flat)
                    writer = writer or pa_csv.CSVWriter(sink, table.schema)
                else:
                    writer = writer or pq.ParquetWriter(sink, table.schema, compression="zstd")
                writer.write_table(table)
            if writer is not None:
                writer.close()

        path = folder / f"imputations.{kind}"
        write_whole(path, write)
        written.append(path)
    return written


def stacked(sets: Imputations, posterior: Posterior) -> Iterator[pa.Table]:
    """The data as they are without any linkage, numbered 0, then each data set with its number.

    Every one has the same rows in the same order, one for each record, as mice and mi demand. In a
    wide data set an entity stands in the row of its first record, and the rows of its other records
    are empty. What differs between data sets is empty in the first.
    """
    records = len(posterior.records)
    for number, table in enumerate(sets, 1):
        if len(table) < records:
            first = np.full(records, -1)
            first[first_records(posterior, sets.spots[number - 1])] = np.arange(len(table))
            where = pa.array(first, mask=first < 0)
            table = pa.table({name: table[name].combine_chunks().take(where)
                              for name in table.column_names})  # fmt: skip
        if number == 1:
            yield numbered(unlinked(table, sets), 0)
        yield numbered(table, number)


def first_records(posterior: Posterior, spot: tuple[int, int]) -> Int64s:
    """The first record of each entity of a draw."""
    linkage = posterior.linkage(*spot)
    return np.flatnonzero(linkage == np.arange(len(linkage)))


def unlinked(table: pa.Table, sets: Imputations) -> pa.Table:
    """The data set in which everything that depends on the linkage is missing."""
    kept = set(sets.fixed)
    return pa.table({field.name: table[field.name] if field.name in kept
                     else pa.nulls(len(table), field.type)
                     for field in table.schema})  # fmt: skip


def numbered(table: pa.Table, number: int) -> pa.Table:
    """The data set with its number and that of each row before the other columns."""
    own = {NUMBER: pa.array(np.full(len(table), number)), ROW: pa.array(np.arange(len(table)) + 1)}
    rest = {free_name(name, set(own)): table[name] for name in table.column_names}
    return pa.table(own | rest)
