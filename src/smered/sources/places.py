"""Places of tables: PATH, NAME=PATH, or the address of a database table.

An address is SCHEME:PATH?TABLE or SCHEME://[USER[:PASSWORD]@]HOST/DATABASE?TABLE. Whatever stands
between the first colon after the slashes and the last @ is the password, and is shown nowhere.
"""

import os
import re
from pathlib import Path
from typing import NamedTuple
from urllib.parse import parse_qsl, unquote, urlencode

from smered.errors import DataError
from smered.sources.parquet import is_remote, label_of

__all__ = ["Address", "from_folder", "is_address", "parse_address", "split_name", "to_folder"]

FILES, SERVERS = ("duckdb", "sqlite"), ("postgresql", "postgres")
NAMED = re.compile(r"(?P<name>[\w.\- ]*[\w.\-][\w.\- ]*)=(?P<place>.+)", re.DOTALL)
SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]*):")
PASSWORDS = ("password", "sslpassword", "passfile")


class Address(NamedTuple):
    """A table of a database."""

    scheme: str
    user: str  # "USER@" or nothing
    password: str
    place: str  # path of a file, or HOST/DATABASE of a server
    table: str
    options: tuple[tuple[str, str], ...]

    @property
    def label(self) -> str:
        """The address as it may be shown."""
        slashes = "//" if self.scheme in SERVERS else ""
        return f"{self.scheme}:{slashes}{self.user}{self.place}?{self.table}"

    @property
    def without_secrets(self) -> str:
        """The address with everything that leads to the table but passwords."""
        options = [each for each in self.options if each[0] not in PASSWORDS]
        if not options:
            return self.label
        query = urlencode([*options, ("table", self.table)])
        return self.label.rpartition("?")[0] + f"?{query}"

    @property
    def secrets(self) -> list[str]:
        """Everything that no message may show."""
        found = [self.password, unquote(self.password)]
        found += [value for key, value in self.options if key in PASSWORDS]
        return [text for text in found if text]


def split_name(text: str, folder: Path = Path()) -> tuple[str | None, str]:
    """The name and the place of NAME=PLACE; no name if there is such a file."""
    found = None if (folder / text).exists() else NAMED.fullmatch(text)
    return (found["name"].strip(), found["place"]) if found else (None, text)


def is_address(place: str) -> bool:
    """Whether a place is a table of a database."""
    found = SCHEME.match(place)
    if found is None or Path(place).exists():
        return False
    return found[1].lower() in FILES + SERVERS


def parse_address(text: str) -> Address:
    """Take an address apart."""
    scheme, _, rest = text.partition(":")
    scheme = scheme.lower()
    user = password = ""
    if scheme in SERVERS:
        if not rest.startswith("//"):
            raise DataError(f"an address of {scheme} begins with {scheme}://")
        rest = rest[2:]
        before, at, after = rest.rpartition("@")
        if at:
            name, _, password = before.partition(":")
            user, rest = f"{name}@", after
    place, _, query = rest.partition("?")
    table, options = "", []
    for part in query.split("&"):
        key, equals, value = part.partition("=")
        if key and not equals:
            table = unquote(key)
        elif key == "table":
            table = unquote(value)
        else:
            options += parse_qsl(part)
    return Address(scheme, user, password, place.removeprefix("//"), table, tuple(options))


def moved(text: str, change: "os.PathLike[str] | str", *, back: bool) -> str:
    """A place with its relative path taken from (or, `back`, to) another folder."""
    name, place = split_name(text, Path() if back else Path(change))
    prefix = "" if name is None else f"{name}="
    lead, path, rest = "", place, ""
    if is_remote(place) and not is_address(place):
        return prefix + label_of(place) if back else text
    if is_address(place):
        address = parse_address(place)
        if address.scheme in SERVERS:
            return prefix + address.without_secrets if back else text
        lead, rest = f"{address.scheme}:", place.partition("?")[1] + place.partition("?")[2]
        path = address.place
    if back:
        path = os.path.relpath(path, change)
    elif not Path(path).is_absolute():
        path = str(Path(change) / path)
    return f"{prefix}{lead}{path}{rest}"


def from_folder(text: str, folder: Path) -> str:
    """A place that is named from a folder, as seen from here."""
    return moved(text, folder, back=False)


def to_folder(text: str, folder: Path) -> str:
    """A place as it is named from a folder, without passwords."""
    return moved(text, folder, back=True)
