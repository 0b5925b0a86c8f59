"""The two JSON files of a run folder, checked field by field when they are read."""

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
from smered.store.disk import read_json

__all__ = ["Checkpoint", "Receipt", "RunFile", "read_checked"]

Content = TypeVar("Content", bound=BaseModel)


class Receipt(BaseModel):
    """Size and checksum of a file, taken when it was written."""

    bytes: NonNegativeInt
    sha256: str


class Checkpoint(BaseModel):
    """What a chain has committed, and where it can go on."""

    sweep: NonNegativeInt
    draws: NonNegativeInt
    living: str  # the clusters of the last draw
    state: str  # the arrays of the chain
    unfinished: list[str]  # parts that end before the sweep at which files are cut
    parts: dict[str, Receipt]

    @model_validator(mode="after")
    def names_are_listed_and_inside(self) -> "Checkpoint":
        """Every file named must have a receipt and lie inside the run folder."""
        for name in (self.living, self.state, *self.unfinished):
            if name not in self.parts:
                raise ValueError(f"it names {name!r}, which it does not list")
        for name in self.parts:
            if PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts:
                raise ValueError("it names a file outside the run folder")
        if self.unfinished and len({name.split("/")[0] for name in self.unfinished}) != 3:
            raise ValueError("it lists unfinished parts of some kinds only")
        return self


class RunFile(BaseModel):
    """run.json: what the run is. Notes beyond these fields are kept as they are."""

    model_config = ConfigDict(extra="allow")

    format: int
    files: list[str]
    records: PositiveInt
    block_columns: list[str]
    model: dict[str, Any]
    settings: dict[str, Any]
    checkpoint_every: PositiveInt
    contents: dict[str, Receipt]
    provenance: dict[str, Any] = {}


def read_checked(kind: type[Content], path: Path) -> Content:
    """Read a JSON file that must be of a kind; say what is wrong with it otherwise."""
    try:
        return kind.model_validate(read_json(path))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        what = first["msg"].removeprefix("Value error, ")
        raise RunError(f"{path} is damaged: {where + ': ' if where else ''}{what}") from None
