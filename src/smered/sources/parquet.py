"""Parquet tables: a file or a folder of files, here or on another file system.

Besides local paths, a place may be any address that pyarrow knows (s3://, gs://, abfs://, hdfs://)
or, where fsspec is installed, any that fsspec does (ftp://, sftp://, https:// and many more). A
table need not be read whole: its pieces, runs of rows, can be read one by one, and elsewhere.
"""

import re
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import NamedTuple
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.fs as pa_fs
import pyarrow.parquet as pq

from smered.errors import DataError
from smered.sources.source import Source, file_name

__all__ = ["MAGIC", "ParquetTable", "Piece", "find_parquet", "is_folder", "is_remote"]
__all__ += ["label_of", "read_parquet", "read_piece"]

MAGIC = b"PAR1"  # how such files begin
ENDINGS = (".parquet", ".parq", ".pq")
REMOTE = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]+://")
SECRET = re.compile(r"(?<=://)([^:@]*):(.*)@")  # up to the last @: passwords may hold any letter
PLAIN = ("region", "scheme", "endpoint_override")  # of what may follow a question mark
ROWS_PER_PIECE = 250_000


class Piece(NamedTuple):
    """Some row groups of a file."""

    place: str
    groups: tuple[int, int]  # the first, and the one after the last
    rows: int


class ParquetTable(NamedTuple):
    """A table that was looked at and not yet read; `label` may be shown anywhere."""

    name: str
    label: str
    schema: pa.Schema
    pieces: tuple[Piece, ...]
    how: str = "Parquet"
    notes: tuple[str, ...] = ()

    @property
    def rows(self) -> int:
        """How many there are."""
        return sum(piece.rows for piece in self.pieces)


def is_remote(place: str) -> bool:
    """Whether a place is on another file system."""
    return bool(REMOTE.match(place)) and not Path(place).exists()


def is_folder(place: str) -> bool:
    """Whether a place is a folder of this machine with Parquet files."""
    path = Path(place)
    return path.is_dir() and any(is_member(entry.name) for entry in path.iterdir())


def is_member(name: str) -> bool:
    """Whether a file of a folder belongs to its table: hidden ones do not."""
    return name.endswith(ENDINGS) and not name.startswith((".", "_"))


def label_of(place: str) -> str:
    """A place as it may be shown: without passwords, keys and signatures."""
    if not is_remote(place):
        return place
    path, _, query = SECRET.sub(r"\1@", place).partition("?")
    kept = [part for part in query.split("&") if part.partition("=")[0] in PLAIN]
    return path + ("?" + "&".join(kept) if kept else "")


def secrets_of(place: str) -> list[str]:
    """What no message may show of a place."""
    found = SECRET.search(place)
    hidden = [found[2], unquote(found[2])] if found else []
    for part in SECRET.sub(r"\1@", place).partition("?")[2].split("&"):
        key, _, value = part.partition("=")
        if key not in PLAIN:
            hidden += [value, unquote(value)]
    return [text for text in hidden if text] if is_remote(place) else []


def find_filesystem(place: str) -> tuple[pa_fs.FileSystem, str]:
    """The file system of a place, and its path there."""
    if not is_remote(place):
        return pa_fs.LocalFileSystem(), str(Path(place).absolute())
    try:
        found: tuple[pa_fs.FileSystem, str] = pa_fs.FileSystem.from_uri(place)
        return found
    except pa.ArrowInvalid:
        pass  # a scheme that pyarrow does not know
    scheme = place.partition("://")[0]
    try:
        import fsspec
    except ImportError:
        raise DataError(
            f"{label_of(place)}: reading {scheme}:// needs fsspec; pip install 'smered[remote]'"
        ) from None
    try:
        system, path = fsspec.core.url_to_fs(place)
    except ImportError as error:
        raise DataError(f"{label_of(place)}: reading {scheme}:// needs more: {error}") from None
    except ValueError:
        raise DataError(
            f"an address that begins with {scheme}:// cannot be read; there are duckdb:, sqlite: "
            "and postgresql: for databases, and s3://, gs://, abfs://, hdfs:// and what fsspec "
            "knows for Parquet files"
        ) from None
    return pa_fs.PyFileSystem(pa_fs.FSSpecHandler(system)), path


def find_parquet(place: str) -> ParquetTable:
    """Look at a table: its columns, and pieces of about as many rows each."""
    label = label_of(place)
    if not is_remote(place):
        place = str(Path(place).absolute())  # for whoever reads it from elsewhere
    try:
        system, path = find_filesystem(place)
        files, others = members(system, path, place)
        schema: pa.Schema | None = None
        pieces: list[Piece] = []
        for file in files:
            place = file  # what an error is about
            with open_file(file) as opened:
                found = opened.schema_arrow.remove_metadata()
                if schema is not None and not found.equals(schema):
                    raise DataError(
                        f"{label_of(file)} has other columns than {label_of(files[0])}, or other "
                        "types; files of one folder are one table and must agree"
                    )
                schema = found
                pieces += cut_groups(file, opened.metadata, ROWS_PER_PIECE)
    except DataError:
        raise
    except Exception as error:  # libraries of other file systems raise errors of their own
        raise damaged(place, error) from None
    assert schema is not None
    notes = (f"left out, for they are no Parquet files: {', '.join(others)}",) if others else ()
    return ParquetTable(file_name(Path(path)), label, schema, tuple(pieces), notes=notes)


def members(system: pa_fs.FileSystem, path: str, place: str) -> tuple[list[str], list[str]]:
    """The places of the files of a table: of one, or of those in a folder, by name.

    And the names of other files in the folder, but for those that programs leave there.
    """
    info = system.get_file_info(path)
    if info.type == pa_fs.FileType.NotFound:
        raise DataError(f"{label_of(place)} does not exist")
    if info.type != pa_fs.FileType.Directory:
        return [place], []
    base = place.rstrip("/")
    names = [
        PurePosixPath(entry.path).name
        for entry in system.get_file_info(pa_fs.FileSelector(path))
        if entry.type != pa_fs.FileType.Directory
    ]
    found = [f"{base}/{name}" for name in sorted(names) if is_member(name)]
    if not found:
        raise DataError(f"{label_of(place)} is a folder without Parquet files")
    others = [n for n in sorted(names) if not is_member(n) and not n.startswith((".", "_"))]
    return found, others


def open_file(place: str) -> pq.ParquetFile:
    """Open a Parquet file."""
    system, path = find_filesystem(place)
    return pq.ParquetFile(system.open_input_file(path))


def cut_groups(place: str, metadata: pq.FileMetaData, rows: int) -> list[Piece]:
    """Cut a file into pieces of about so many rows."""
    pieces, first, held = [], 0, 0
    for group in range(metadata.num_row_groups):
        held += metadata.row_group(group).num_rows
        if held >= rows or group == metadata.num_row_groups - 1:
            pieces.append(Piece(place, (first, group + 1), held))
            first, held = group + 1, 0
    return [piece for piece in pieces if piece.rows]


def read_piece(piece: Piece, columns: Sequence[str] | None = None) -> pa.Table:
    """Read some row groups, all columns or some."""
    try:
        with open_file(piece.place) as opened:
            wanted = None if columns is None else list(columns)
            table = opened.read_row_groups(range(*piece.groups), columns=wanted)
    except DataError:
        raise
    except Exception as error:
        raise damaged(piece.place, error) from None
    return table.replace_schema_metadata(None)


def read_parquet(place: str) -> Source:
    """Read a table whole."""
    found = find_parquet(place)
    table = pa.concat_tables(
        [found.schema.empty_table(), *(read_piece(piece) for piece in found.pieces)]
    )
    return Source(found.name, found.label, "Parquet", table, found.notes)


def damaged(place: str, error: Exception) -> DataError:
    """Say that a file is not what it should be, or cannot be reached."""
    label = label_of(place)
    first = next(iter(str(error).strip().splitlines()), type(error).__name__)
    for secret in secrets_of(place):
        first = first.replace(secret, "***")
    file = isinstance(error, pa.ArrowException | ValueError)  # not the way to it
    if not file and (is_remote(place) or getattr(error, "errno", None)):
        return DataError(f"cannot read {label}: {first}")
    return DataError(f"{label} is a damaged Parquet file: {first}; write it again")
