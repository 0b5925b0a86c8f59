"""link.toml: everything that decides the result of a linkage, in one file that can be kept.

How fast, where to and how loud are not in it: those are flags of the command.
"""

import difflib
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from smered.errors import ConfigError
from smered.model import Distortion
from smered.sampler import Settings

__all__ = ["FIELD_TYPES", "Configuration", "FieldTable", "ModelTable", "PriorTable"]
__all__ += ["load_config", "merge"]

FIELD_TYPES = ("categorical", "exact", "joint")


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
    encoding: str | None = None
    delimiter: str | None = None


class FieldTable(Strict):
    """One field: its type and, where they differ from the model's, its hyperparameters."""

    type: Literal["categorical", "exact", "joint"] = "categorical"
    columns: list[str] = []
    a: float | None = None
    b: float | None = None
    mu: float | dict[str, float] | None = None


class PriorTable(Strict):
    """The prior on the linkage."""

    type: Literal["uniform-labels", "uniform-partitions", "ewens", "pitman-yor"] = "uniform-labels"
    concentration: float | None = None
    discount: float | None = None


class ModelTable(Strict):
    """What holds for all fields, and the prior."""

    distortion: Distortion = "field"
    a: float | None = None
    b: float | None = None
    mu: float | None = None
    prior: PriorTable = PriorTable()


class SamplingTable(Strict):
    """How long to sample."""

    draws: int = Settings.draws
    burn_in: int = Settings.burn_in
    thin: int = Settings.thin
    chains: int = Settings.chains
    seed: int = Settings.seed
    proposals: int | None = None


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
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read {path}: {error}") from None
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path} is not valid TOML: {error}") from None
    found = validate(content, lambda key: f"{path}{line_of(text, key)}: ")
    folder = path.parent
    files = [beside(folder, place) for place in found.data.files]
    return found.model_copy(update={"data": found.data.model_copy(update={"files": files})})


def beside(folder: Path, place: str) -> str:
    """A file named in link.toml is looked for where that lies."""
    if re.match(r"[a-z]+:", place) or Path(place).is_absolute() or "=" in place:
        return place
    return str(folder / place)


def line_of(text: str, key: str) -> str:
    """Where a key stands in a TOML text, as well as can be told."""
    pattern = re.compile(rf"^\s*(\[+[\w.\"' -]*)?\"?{re.escape(key)}\"?\s*(=|\]|\.)")
    for number, line in enumerate(text.splitlines(), 1):
        if pattern.match(line):
            return f", line {number}"
    return ""


def validate(content: Mapping[str, Any], where: Callable[[str], str]) -> Configuration:
    """Check a configuration; `where` says where a key stands."""
    try:
        return Configuration.model_validate(content)
    except ValidationError as error:
        first = error.errors()[0]
        place = [str(part) for part in first["loc"]]
        key = place[-1] if first["type"] == "extra_forbidden" else named_key(place, content)
        message = first["msg"].replace("Input should be", "it should be")
        if first["type"] == "extra_forbidden":
            message = f"unknown key; {closest(key, known_keys(place[:-1]))}"
        raise ConfigError(f"{where(key)}{'.'.join(place)}: {message}") from None


def named_key(place: Sequence[str], content: Mapping[str, Any]) -> str:
    """The last part of a place that the configuration itself holds."""
    key, inside = place[0], content
    for part in place:
        if not isinstance(inside, Mapping) or part not in inside:
            break
        key, inside = part, inside[part]
    return key


def known_keys(place: Sequence[str]) -> list[str]:
    """Keys that a table may have."""
    table: type[BaseModel] = Configuration
    for part in place:
        if part == "fields":
            return list(FieldTable.model_fields)
        table = table.model_fields[part].annotation  # type: ignore[assignment]
    return list(table.model_fields)


def closest(name: str, choices: Sequence[str]) -> str:
    """The likeliest choice, or all of them."""
    found = difflib.get_close_matches(name, choices, n=1, cutoff=0.5)
    return f"did you mean {found[0]!r}?" if found else f"there are: {', '.join(choices)}"


def merge(config: Configuration, changes: Mapping[str, Mapping[str, Any]]) -> Configuration:
    """The configuration with the flags that were given in place of what the file says."""
    content = config.model_dump()
    for table, values in changes.items():
        given = {key: value for key, value in values.items() if value is not None}
        content[table] = given if table == "fields" and given else content[table] | given
    return validate(content, lambda key: "")
