"""Writing files that are either whole or absent, and reading them only if they are intact."""

import errno
import hashlib
import json
import os
import stat
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
from numpy.typing import NDArray

from smered.errors import RunError

__all__ = [
    "MissingError",
    "as_numpy",
    "cannot_write",
    "read_json",
    "read_table",
    "remove",
    "write_csv",
    "write_json",
    "write_table",
]
__all__ += ["write_pieces", "write_text", "write_whole"]


def write_whole(path: Path, write: Callable[[IO[bytes]], None]) -> None:
    """Write a file under another name, force it to disk, then rename it into place."""
    unfinished = path.with_name(f".{path.name}.unfinished")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished.unlink(missing_ok=True)  # what an interruption left, or a link to elsewhere
        with unfinished.open("xb") as sink:
            write(sink)
            sink.flush()
            os.fsync(sink.fileno())
        unfinished.replace(path)
        sync_folder(path.parent)
    except OSError as error:
        with suppress(OSError):
            unfinished.unlink()
        raise cannot_write(path, error) from error


def cannot_write(path: Path, error: OSError) -> RunError:
    """Say why a file could not be written and what to do."""
    remedy = {
        errno.ENOSPC: "the disk is full: free some space, then resume the run",
        errno.EDQUOT: "the quota is used up: free some space, then resume the run",
        errno.EROFS: "the folder is read-only: choose another output folder",
        errno.EACCES: "you may not write there: change its permissions or choose another folder",
    }.get(error.errno or 0, error.strerror or str(error))
    return RunError(f"cannot write {path}: {remedy}")


def remove(path: Path) -> None:
    """Remove a file of a run."""
    try:
        path.unlink()
    except OSError as error:
        raise cannot_write(path, error) from None


def sync_folder(folder: Path) -> None:
    """Force a rename to disk."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_table(path: Path, table: pa.Table) -> dict[str, Any]:
    """Write a Parquet file; return its size and checksum."""
    write_whole(path, lambda sink: pq.write_table(table, sink, compression="zstd"))
    return take_receipt(path)


def write_pieces(path: Path, schema: pa.Schema, pieces: Iterable[pa.Table]) -> dict[str, Any]:
    """Write a Parquet file piece by piece; return its size and checksum."""

    def write(sink: IO[bytes]) -> None:
        with pq.ParquetWriter(sink, schema, compression="zstd") as writer:
            for piece in pieces:
                writer.write_table(piece)

    write_whole(path, write)
    return take_receipt(path)


def take_receipt(path: Path) -> dict[str, Any]:
    """The size and the checksum of a file that was just written."""
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256")
        return {"bytes": file.tell(), "sha256": digest.hexdigest()}


def write_csv(path: Path, table: pa.Table) -> None:
    """Write a CSV file."""
    write_whole(path, lambda sink: pa_csv.write_csv(table, sink))


def write_text(path: Path, text: str) -> None:
    """Write a text file."""
    write_whole(path, lambda sink: (sink.write(text.encode()), None)[1])


def write_json(path: Path, content: Any) -> None:
    """Write a JSON file."""
    write_text(path, json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


class MissingError(RunError):
    """A file of a run folder is not there."""


def read_file(path: Path, size: int | None = None) -> bytes:
    """Read a file that must be one: no link, pipe or device, and of this size if one is given."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with open(handle, "rb") as file:
            about = os.fstat(handle)
            if not stat.S_ISREG(about.st_mode):
                raise RunError(f"{path} is damaged: it is not a file")
            if size is not None and about.st_size != size:
                raise RunError(f"{path} is damaged: it has a different size than when written")
            return file.read(about.st_size)
    except FileNotFoundError:
        raise MissingError(
            f"{path} is missing from the run folder; if the run is still going, open it again"
        ) from None
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise RunError(f"{path} is a link: a run folder holds its own files only") from None
        raise RunError(f"cannot read {path}: {error.strerror}") from None
    except (MemoryError, ValueError) as error:
        raise RunError(f"cannot read {path}: {error or 'it is too large'}") from None


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON file that must hold an object."""
    try:
        content = json.loads(read_file(path))
    except MissingError:
        raise MissingError(f"{path} is missing: is this a run folder?") from None
    except (ValueError, RecursionError) as error:
        raise RunError(f"{path} is damaged: {error}") from None
    if not isinstance(content, dict):
        raise RunError(f"{path} is damaged: it should hold an object")
    return content


def read_intact(path: Path, size: int, sha256: str) -> bytes:
    """Read a file whose size and checksum must be those with which it was written."""
    content = read_file(path, size)
    if hashlib.sha256(content).hexdigest() != sha256:
        raise RunError(f"{path} is damaged: its content changed since it was written")
    return content


def read_table(
    path: Path,
    size: int,
    sha256: str,
    schema: pa.Schema | None = None,
    most_rows: int | None = None,
    most_values: int | None = None,
) -> pa.Table:
    """Read an intact Parquet file: the columns of the given schema.

    It may have so many rows at most, and columns of lists so many values.
    """
    content = read_intact(path, size, sha256)
    try:
        # not pq.read_table, which would import pandas
        file = pq.ParquetFile(pa.BufferReader(content))
        if most_rows is not None and file.metadata.num_rows > most_rows:
            raise RunError(f"{path} is damaged: it has {file.metadata.num_rows:,} rows")
        if most_values is not None and count_values(file.metadata) > most_values:
            raise RunError(f"{path} is damaged: it holds {count_values(file.metadata):,} values")
        table = file.read(columns=None if schema is None else schema.names)
        if schema is not None and not table.schema.equals(schema):
            table = table.cast(schema)
        table.validate(full=True)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise RunError(f"{path} is damaged: {error}") from None
    return table


def count_values(about: pq.FileMetaData) -> int:
    """Values of the fullest column of a Parquet file."""
    groups = [about.row_group(i) for i in range(about.num_row_groups)]
    columns = range(about.num_columns)
    return max((sum(g.column(c).num_values for g in groups) for c in columns), default=0)


def as_numpy(array: pa.Array) -> NDArray[Any]:
    """View numbers without nulls; `to_numpy` would import pandas, half a second, if it is there."""
    return np.from_dlpack(array)
