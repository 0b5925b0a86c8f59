"""link.toml: everything that decides the result of a linkage, in one file that can be kept.

How fast, where to and how loud are not in it: those are flags of the command.
"""

import math
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from smered.errors import ConfigError
from smered.model import MOST_CLASSES, Distortion
from smered.sampler import Settings
from smered.sources import from_folder
from smered.suggest import suggest

__all__ = ["FIELD_TYPES", "Configuration", "FieldTable", "ModelTable", "PriorTable"]
__all__ += ["load_config", "merge", "plain_values"]

FieldType = Literal["categorical", "text", "number", "date", "exact", "joint"]
FIELD_TYPES = get_args(FieldType)


HEADER = re.compile(r"\s*\[\[?\s*(.+?)\s*\]\]?\s*(?:#.*)?$")
KEY = re.compile(r"""\s*((?:[\w-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[\w-]+|"[^"]*"|'[^']*'))*)\s*=""")

Rate = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Whole = Annotated[int, Field(strict=True)]
Count = Annotated[Whole, Field(ge=0)]
Positive = Annotated[Whole, Field(ge=1)]


class Strict(BaseModel):
    """A table of link.toml; a key it does not know is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class DataTable(Strict):
    """What the columns of the files are."""

    files: list[str] = []
    id: str | None = None
    file_column: str | None = None
    truth: str | None = None
    ignore: list[str] = []
    missing: list[str] = []
    blocks: list[str] = []
    duplicates: bool | dict[str, bool] = True
    time_order: list[str] = []
    encoding: str | None = None
    delimiter: str | None = None


class FieldTable(Strict):
    """One field: its type and, where they differ from the model's, its hyperparameters."""

    type: FieldType = "categorical"
    columns: list[str] = []
    types: dict[str, Literal["text", "number", "date"]] = {}
    similarity: Literal["damerau", "levenshtein", "jaro-winkler"] | None = None
    threshold: Annotated[float, Field(ge=0, lt=1)] | None = None
    scale: Annotated[float, Field(ge=0, le=50)] | None = None
    within: Annotated[float, Field(ge=0)] | None = None
    format: str | None = None
    may_equal: bool | None = None
    changes: bool | None = None
    slips: bool | None = None
    a: Rate | None = None
    b: Annotated[float, Field(gt=0)] | None = None
    mu: Rate | dict[str, Rate] | None = None


class PriorTable(Strict):
    """The prior on the linkage."""

    type: Literal[
        "uniform-labels", "uniform-partitions", "ewens", "pitman-yor", "cluster-sizes"
    ] = "cluster-sizes"
    concentration: Rate | None = None
    discount: float | Literal["learned"] | None = None
    strength: Rate | None = None
    files: bool | None = None
    blocks: bool | None = None


class ModelTable(Strict):
    """What holds for all fields, and the prior."""

    distortion: Distortion = "field"
    classes: Annotated[Whole, Field(ge=1, le=MOST_CLASSES)] = 1
    pairs: Literal["informed", "rotating", "uniform"] = "informed"
    a: Rate | None = None
    b: Annotated[float, Field(gt=0)] | None = None
    mu: Rate | None = None
    prior: PriorTable = PriorTable()


class SamplingTable(Strict):
    """How long to sample."""

    draws: Positive = Settings.draws
    burn_in: Count = Settings.burn_in
    thin: Positive = Settings.thin
    chains: Positive = Settings.chains
    seed: Count = Settings.seed
    proposals: Positive | None = None


class Configuration(Strict):
    """All of link.toml."""

    data: DataTable = DataTable()
    fields: dict[str, FieldTable] = Field(default_factory=dict)
    model: ModelTable = ModelTable()
    sampling: SamplingTable = SamplingTable()


def load_config(path: Path) -> Configuration:
    """Read a link.toml; say what is wrong with it, and in which line."""
    try:
        text = path.read_text("utf-8")
    except FileNotFoundError:
        raise ConfigError(f"{path} does not exist; write one with smered init") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{path} is not UTF-8, as TOML must be; save it so") from None
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from None
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path} is not valid TOML: {error}") from None
    found = validate(content, lambda place: f"{path}{line_of(text, place)}: ")
    files = [from_folder(place, path.parent) for place in found.data.files]
    return found.model_copy(update={"data": found.data.model_copy(update={"files": files})})


def line_of(text: str, place: Sequence[str]) -> str:
    r"""Where a key stands in a TOML text: the line of it, or of the table that holds it.

    >>> line_of("[model]\na = 1\n[fields.town]\ntype = 'x'", ["fields", "town", "type"])
    ', line 4'
    """
    table: list[str] = []
    nearest, depth = "", 0
    for number, line in enumerate(text.splitlines(), 1):
        if header := HEADER.match(line):
            here = table = key_path(header[1])
        elif key := KEY.match(line):
            here = table + key_path(key[1])
        else:
            continue
        if len(here) > depth and here == list(place[: len(here)]):
            nearest, depth = f", line {number}", len(here)
    return nearest


def key_path(text: str) -> list[str]:
    """The parts of a dotted key."""
    try:
        inside: Any = tomllib.loads(f"{text} = 0")
    except tomllib.TOMLDecodeError:  # within a text of several lines
        return []
    parts = []
    while isinstance(inside, dict):
        ((name, inside),) = inside.items()
        parts.append(name)
    return parts


def validate(content: Mapping[str, Any], where: Callable[[Sequence[str]], str]) -> Configuration:
    """Check a configuration; `where` says where a key stands."""
    try:
        return Configuration.model_validate(content)
    except ValidationError as error:
        first = error.errors()[0]
        place = named(first["loc"], content)
        message = first["msg"].replace("Input should be", "it should be")
        message = re.sub(r"a valid dictionary.*", "a table of settings", message)
        if first["type"] == "extra_forbidden":
            message = f"unknown key; {suggest(place[-1], known_keys(place[:-1]))}"
        raise ConfigError(f"{where(place)}{'.'.join(place)}: {message}") from None


def named(place: Sequence[int | str], content: Mapping[str, Any]) -> list[str]:
    """The parts of a place that the configuration itself holds."""
    keys: list[str] = []
    inside: Any = content
    for part in place:
        if isinstance(inside, Mapping) and part in inside:
            keys, inside = [*keys, str(part)], inside[part]
    return keys


def known_keys(place: Sequence[str]) -> list[str]:
    """Keys that a table may have."""
    table: type[BaseModel] = Configuration
    for part in place:
        if part == "fields":
            return list(FieldTable.model_fields)
        table = table.model_fields[part].annotation  # type: ignore[assignment]
    return list(table.model_fields)


def merge(config: Configuration, changes: Mapping[str, Mapping[str, Any]]) -> Configuration:
    """The configuration with the flags that were given in place of what the file says."""
    content = config.model_dump()
    for table, values in changes.items():
        given = {key: value for key, value in values.items() if value is not None}
        content[table] = given if table == "fields" and given else content[table] | given
    data = changes.get("data", {})
    apart = [
        data.get("id"),
        data.get("file_column"),
        data.get("truth"),
        *(data.get("ignore") or ()),
    ]
    if not changes.get("fields"):
        for name in apart:  # a flag that sets a column apart takes it out of the file's fields
            content["fields"].pop(name, None)
    return validate(content, lambda place: "")


def plain_values(content: Any) -> Any:
    """A dumped configuration with values that JSON knows: infinity as text."""
    if isinstance(content, dict):
        return {key: plain_values(value) for key, value in content.items()}
    return "inf" if content == math.inf else content
