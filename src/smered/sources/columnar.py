"""Parquet and Arrow (Feather) files."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from smered.errors import DataError
from smered.sources.source import Source, file_name

__all__ = ["ARROW", "PARQUET", "read_arrow", "read_parquet"]

PARQUET, ARROW = b"PAR1", b"ARROW1"  # how such files begin


def read_parquet(path: Path) -> Source:
    """Read a Parquet file."""
    try:
        table = pq.ParquetFile(path).read()
    except (pa.ArrowException, OSError) as error:
        raise damaged(path, "Parquet", error) from None
    return Source(file_name(path), str(path), "Parquet", table)


def read_arrow(path: Path) -> Source:
    """Read an Arrow IPC file, as Feather files are."""
    try:
        with pa.OSFile(str(path)) as file:
            table = pa.ipc.open_file(file).read_all()
    except (pa.ArrowException, OSError) as error:
        raise damaged(path, "Arrow", error) from None
    return Source(file_name(path), str(path), "Arrow", table)


def damaged(path: Path, kind: str, error: Exception) -> DataError:
    """Say that a file is not what it says it is."""
    return DataError(f"{path} is a damaged {kind} file: {error}; write it again")
