"""link.toml: everything that decides the result of a linkage, in one file that can be kept.

How fast, where to and how loud are not in it: those are flags of the command.
"""

import difflib
import math
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from smered.errors import ConfigError, DataError
from smered.fields import Categorical, Joint
from smered.fields import Field as ModelField
from smered.model import Distortion, Model
from smered.priors import Ewens, PitmanYor, Prior, UniformLabels, UniformPartitions
from smered.records import Records, suggest
from smered.sampler import Settings
from smered.sources import Source

__all__ = ["FIELD_TYPES", "Configuration", "load_config", "make_model", "merge"]

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


def validate(content: Mapping[str, Any], where: Any) -> Configuration:
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


def make_model(config: Configuration, sources: Mapping[str, Source]) -> Model:
    """Code the tables and set the model up as configured."""
    data = config.data
    tables = {name: source.table for name, source in sources.items()}
    check_headers(tables)
    fields = list(make_fields(config, tables))
    frames: Any = tables
    if data.file_column is not None:
        if len(tables) > 1:
            raise ConfigError(
                "give several files, or one file with a file column, not both: "
                f"{', '.join(tables)} and file_column = {data.file_column!r}"
            )
        frames = next(iter(tables.values()))
    for name in [data.truth, *data.ignore]:
        if name is not None:
            check_known(name, tables)
    records = Records.from_frames(
        frames,
        columns=[column for field in fields for column in field.columns],
        id=data.id,
        file_column=data.file_column,
        blocks=data.blocks,
        missing=data.missing,
    )
    return Model(
        records,
        fields,
        duplicates=data.duplicates,
        distortion=config.model.distortion,
        prior=make_prior(config.model.prior),
    )


def check_headers(tables: Mapping[str, pa.Table]) -> None:
    """Refuse a table that was read as one column because its delimiter is another."""
    for name, table in tables.items():
        if table.num_columns == 1 and re.search(r"[,;\t|]", table.column_names[0]):
            raise DataError(
                f"file {name!r} has one column only, {table.column_names[0]!r}; is the delimiter "
                "right? say it with --delimiter"
            )


def check_known(name: str, tables: Mapping[str, pa.Table]) -> None:
    """Refuse a column that no file has."""
    names = sorted({column for table in tables.values() for column in table.column_names})
    if name not in names:
        raise DataError(f"no file has a column {name!r}; {suggest(name, names)}")


def make_fields(config: Configuration, tables: Mapping[str, pa.Table]) -> Iterator[ModelField]:
    """The fields that are configured, or else every column that is nothing else."""
    data = config.data
    if config.fields:
        for name, table in config.fields.items():
            yield make_field(name, table, config.model)
        return
    apart = {data.id, data.file_column, data.truth, *data.ignore}
    for name in dict.fromkeys(c for table in tables.values() for c in table.column_names):
        if name in apart:
            continue
        for file, table in tables.items():
            if name not in table.column_names:
                near = difflib.get_close_matches(name, table.column_names, n=1)
                meant = f"did you mean {near[0]!r}? Rename it, or leave" if near else "leave"
                raise DataError(
                    f"file {file!r} has no column {name!r}, which other files have; {meant} the "
                    f"column out with --ignore {name!r}"
                )
        yield make_field(name, FieldTable(), config.model)


def make_field(name: str, table: FieldTable, model: ModelTable) -> ModelField:
    """A field as configured."""
    given = model.model_dump(include={"a", "b", "mu"}, exclude_none=True)
    given |= table.model_dump(include={"a", "b", "mu"}, exclude_none=True)
    if table.type == "exact":
        given["b"] = math.inf
    if table.type == "joint":
        if len(table.columns) < 2:
            raise ConfigError(f"fields.{name}: a joint field needs columns = [...], two or more")
        return Joint(*table.columns, **given)
    if table.columns and table.columns != [name]:
        raise ConfigError(f"fields.{name}: columns are for joint fields; name the field {name!r}")
    return Categorical(name, **given)


def make_prior(table: PriorTable) -> Prior:
    """The prior as configured; what is not given is learned."""
    given = {
        key: value
        for key, value in {"concentration": table.concentration, "discount": table.discount}.items()
        if value is not None
    }
    kinds: dict[str, tuple[Any, set[str]]] = {
        "uniform-labels": (UniformLabels, set()),
        "uniform-partitions": (UniformPartitions, set()),
        "ewens": (Ewens, {"concentration"}),
        "pitman-yor": (PitmanYor, {"concentration", "discount"}),
    }
    kind, takes = kinds[table.type]
    for key in given:
        if key not in takes:
            raise ConfigError(f"model.prior: {key} does not belong to the prior {table.type!r}")
    prior: Prior = kind(**given)
    return prior
