"""Where tables come from: files and databases, each read whole into an Arrow table."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from smered.errors import DataError
from smered.sources import feather, parquet
from smered.sources.databases import read_database
from smered.sources.delimited import read_delimited
from smered.sources.parquet import ParquetTable, find_parquet, is_folder, is_remote
from smered.sources.places import from_folder, is_address, split_name, to_folder
from smered.sources.source import Source
from smered.suggest import suggest

__all__ = ["ParquetTable", "Source", "find_pieces", "from_folder", "read_source"]
__all__ += ["read_sources", "to_folder"]

Named = TypeVar("Named", Source, ParquetTable)

SIGNATURES = {
    b"PK\x03\x04": "an Excel workbook or a zip archive; save the sheet as CSV",
    b"\xd0\xcf\x11\xe0": "an old Excel workbook; save the sheet as CSV",
    b"%PDF": "a PDF; save its table as CSV",
    b"SQLite format 3": "an SQLite database; write sqlite:PATH?TABLE",
}


def read_sources(
    places: Sequence[str], *, encoding: str | None = None, delimiter: str | None = None
) -> dict[str, Source]:
    """Read every place, PLACE or NAME=PLACE, by the name of its file in the linkage.

    A place is a path or the address of a database table. Without a name, a file is called by its
    own name without endings, a table by the table's.
    """
    return name_each(places, lambda place: read_source(place, encoding, delimiter))


def find_pieces(places: Sequence[str]) -> dict[str, ParquetTable] | None:
    """Look at the same places without reading them, if all are Parquet."""
    for text in places:
        _, place = split_name(text)
        if is_address(place):
            return None
        elsewhere = is_remote(place) or is_folder(place)
        if not elsewhere and not read_start(Path(place)).startswith(parquet.MAGIC):
            return None
    return name_each(places, find_parquet)


def name_each(places: Sequence[str], read: Callable[[str], Named]) -> dict[str, Named]:
    """Read every place; no two may be called alike."""
    sources: dict[str, Named] = {}
    for text in places:
        given, place = split_name(text)
        source = read(place)
        name = given or source.name
        if name in sources:
            raise DataError(
                f"{sources[name].label} and {source.label} would both be called {name!r}; "
                f"give one another name: NAME={source.label}"
            )
        sources[name] = source._replace(name=name)
    return sources


def read_source(place: str, encoding: str | None = None, delimiter: str | None = None) -> Source:
    """Read one place, whatever it is."""
    if is_address(place):
        return read_database(place)
    if is_remote(place) or is_folder(place):
        return parquet.read_parquet(place)
    path = Path(place)
    start = read_start(path)
    if start.startswith(parquet.MAGIC):
        return parquet.read_parquet(place)
    if start.startswith(feather.MAGIC):
        return feather.read_arrow(path)
    for signature, what in SIGNATURES.items():
        if start.startswith(signature):
            raise DataError(f"{path} is {what}")
    return read_delimited(path, encoding=encoding, delimiter=delimiter)


def read_start(path: Path) -> bytes:
    """The first bytes of a file that must exist, be a file, and hold something."""
    if path.exists() and not path.is_file() and not path.is_dir():
        raise DataError(f"{path} is a pipe or a device; write the table to a file first")
    try:
        with path.open("rb") as file:
            start = file.read(16)
    except FileNotFoundError:
        raise DataError(f"{path} does not exist; {other_files(path)}") from None
    except IsADirectoryError:
        raise DataError(f"{path} is a folder; name the files in it") from None
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror}") from None
    if not start:
        raise DataError(f"{path} is empty; a table needs a header and at least one row")
    return start


def other_files(path: Path) -> str:
    """Say which file was probably meant."""
    folder = path.parent
    if not folder.is_dir():
        return f"there is no folder {folder} either"
    names = sorted(entry.name for entry in folder.iterdir() if entry.is_file())
    close = suggest(path.name, names)
    return close if close.startswith("did") else f"check its name and the folder {folder}"
