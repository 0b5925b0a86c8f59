"""The two JSON files of a run folder, sealed when written, checked field by field when read."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath
from typing import Any, TypeVar

from pydantic import (
    BaseModel,
    ConfigDict,
    NonNegativeInt,
    PositiveInt,
    ValidationError,
    model_validator,
)

from smered.errors import RunError
from smered.records import Reading
from smered.store.disk import read_json, write_json

__all__ = ["Checkpoint", "Receipt", "RunFile", "read_checked", "seal", "write_sealed"]

FOLDERS = ("records", "lifetimes", "draws", "timings", "checkpoints")
SEAL = "seal"  # checksum of all else in the file

Content = TypeVar("Content", bound=BaseModel)


class Receipt(BaseModel):
    """Size and checksum of a file, taken when it was written."""

    bytes: NonNegativeInt
    sha256: str


class Checkpoint(BaseModel):
    """What a chain has committed, and where it can go on."""

    sweep: NonNegativeInt
    draws: NonNegativeInt
    first: PositiveInt  # the sweep that the newest files begin with
    complete: bool  # whether files are cut here: if not, the next ones replace the newest
    passing: list[str]  # files that the next checkpoint replaces
    state: str  # the arrays of the chain
    files: dict[str, Receipt]

    @model_validator(mode="after")
    def names_are_listed_and_inside(self) -> "Checkpoint":
        """Every file named must have a receipt and lie inside the run folder."""
        for name in (self.state, *self.passing):
            if name not in self.files:
                raise ValueError(f"it names {name!r}, which it does not list")
        check_inside(self.files)
        return self


class RunFile(BaseModel):
    """run.json: what the run is. Notes beyond these fields are kept as they are."""

    model_config = ConfigDict(extra="allow")

    format: int
    files: list[str]
    records: PositiveInt
    block_columns: list[str]
    reading: Reading = Reading()
    model: dict[str, Any]
    settings: dict[str, Any]
    checkpoint_every: PositiveInt
    parts: list[NonNegativeInt]  # where the parts of the records begin, and the last one ends
    contents: dict[str, Receipt]
    provenance: dict[str, Any] = {}

    @model_validator(mode="after")
    def parts_cover_the_records(self) -> "RunFile":
        """Parts follow each other from the first record to the last; files are inside, once."""
        check_inside(self.contents)
        if len(set(self.files)) < len(self.files):
            raise ValueError("it names a file of records twice")
        cuts = self.parts
        if cuts[:1] != [0] or cuts[-1] != self.records or sorted(set(cuts)) != cuts:
            raise ValueError("its parts do not cover the records")
        return self


def check_inside(names: Iterable[str]) -> None:
    """Refuse files that are not in one of the run folder's own folders."""
    for name in names:
        parts = PurePosixPath(name).parts
        if len(parts) != 2 or parts[0] not in FOLDERS or ".." in parts:
            raise ValueError("it names a file outside the run folder")


def seal(content: Mapping[str, Any]) -> dict[str, Any]:
    """What a JSON file holds, and a checksum of it."""
    rest = {name: value for name, value in content.items() if name != SEAL}
    plain = json.dumps(json.loads(json.dumps(rest)), sort_keys=True)
    return rest | {SEAL: hashlib.sha256(plain.encode()).hexdigest()}


def write_sealed(path: Path, content: Mapping[str, Any]) -> None:
    """Write a JSON file with its checksum."""
    write_json(path, seal(content))


def read_checked(kind: type[Content], path: Path) -> Content:
    """Read a sealed JSON file that must be of a kind; say what is wrong with it otherwise."""
    content = read_json(path)
    if seal(content)[SEAL] != content.get(SEAL):
        raise RunError(f"{path} is damaged: its content changed since it was written")
    try:
        return kind.model_validate(content)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        what = first["msg"].removeprefix("Value error, ")
        raise RunError(f"{path} is damaged: {where + ': ' if where else ''}{what}") from None
