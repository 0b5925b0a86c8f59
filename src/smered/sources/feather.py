"""Arrow (Feather) files."""

from pathlib import Path

import pyarrow as pa

from smered.errors import DataError
from smered.sources.source import Source, file_name

__all__ = ["MAGIC", "read_arrow"]

MAGIC = b"ARROW1"  # how such files begin


def read_arrow(path: Path) -> Source:
    """Read an Arrow IPC file, as Feather files are."""
    try:
        with pa.OSFile(str(path)) as file:
            table = pa.ipc.open_file(file).read_all()
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"{path} is a damaged Arrow file: {error}; write it again") from None
    return Source(file_name(path), str(path), "Arrow", table)
