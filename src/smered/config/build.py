"""From a configuration and tables to a model."""

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from smered.config.schema import FIELD_TYPES, Configuration, FieldTable, PriorTable
from smered.errors import ConfigError, DataError
from smered.fields import Categorical, Date, Field, Joint, Number, Text
from smered.model import Model
from smered.pairs import InformedPairs, RotatingBlocks, UniformPairs
from smered.priors import (
    ClusterSizes,
    Ewens,
    PitmanYor,
    PriorChoice,
    UniformLabels,
    UniformPartitions,
)
from smered.records import Records
from smered.sources import Source
from smered.suggest import closest, suggest

if TYPE_CHECKING:
    from smered.execute.on_ray.cluster import RayCluster
    from smered.execute.on_ray.coding import Coding
    from smered.sources import ParquetTable

__all__ = ["check_headers", "code_on_cluster", "make_model"]


def make_model(config: Configuration, sources: Mapping[str, Source]) -> Model:
    """Code the tables and set the model up as configured."""
    tables = {name: source.table for name, source in sources.items()}
    fields = find_fields(config, tables)
    records = Records.from_frames(tables, **how_to_read(config, fields))
    if not any((column.codes >= 0).any() for column in records.columns.values()):
        raise no_values(config, fields)
    return Model(records, fields, **meaning(config))


def code_on_cluster(
    config: Configuration, tables: "Mapping[str, ParquetTable]", cluster: "RayCluster"
) -> "tuple[Coding, Model]":
    """The same on a cluster; the model that is returned has no records."""
    fields = find_fields(config, {name: t.schema.empty_table() for name, t in tables.items()})
    coding = cluster.coding(tables, **how_to_read(config, fields))
    if not any(len(column.levels) for column in coding.records.columns.values()):
        raise no_values(config, fields)
    return coding, coding.model(fields, **meaning(config))


def find_fields(config: Configuration, tables: Mapping[str, pa.Table]) -> list[Field]:
    """The fields to compare, after checking that the tables have what the configuration names."""
    data = config.data
    check_headers(tables)
    fields = list(make_fields(config, tables))
    if data.file_column is not None and len(tables) > 1:
        raise ConfigError(
            "give several files, or one file with a file column, not both: "
            f"{', '.join(tables)} and file_column = {data.file_column!r}"
        )
    for name in [data.truth, *data.ignore]:
        if name is not None:
            check_known(name, tables)
    if not fields:
        raise DataError("there is nothing to compare: every column is set apart or useless")
    return fields


def how_to_read(config: Configuration, fields: Sequence[Field]) -> dict[str, Any]:
    """What of the tables is read, and what it means."""
    data = config.data
    return {
        "columns": [column for field in fields for column in field.columns],
        "id": data.id,
        "file_column": data.file_column,
        "blocks": data.blocks,
        "missing": data.missing,
    }


def meaning(config: Configuration) -> dict[str, Any]:
    """What a model is besides its records and fields."""
    return {
        "duplicates": config.data.duplicates,
        "distortion": config.model.distortion,
        "classes": config.model.classes,
        "time_order": config.data.time_order,
        "prior": make_prior(config.model.prior),
        "pairs": PAIRS[config.model.pairs](),
    }


def no_values(config: Configuration, fields: Sequence[Field]) -> DataError:
    """Say that there is nothing to compare."""
    markers = ", ".join(map(repr, config.data.missing)) or "none given"
    return DataError(
        f"every value of {', '.join(field.name for field in fields)} is missing; check the "
        f"missing markers ({markers})"
    )


def check_headers(tables: Mapping[str, pa.Table]) -> None:
    """Refuse repeated names, and a table that is one column because its delimiter is another."""
    for name, table in tables.items():
        repeated = [column for column, n in Counter(table.column_names).items() if n > 1]
        if repeated:
            raise DataError(f"file {name!r} has a column {repeated[0]!r} more than once; rename it")
        if table.num_columns == 1 and re.search(r"[,;\t|:~^]", table.column_names[0]):
            raise DataError(
                f"file {name!r} has one column only, {table.column_names[0]!r}; is the delimiter "
                "right? say it with --delimiter"
            )


def check_known(name: str, tables: Mapping[str, pa.Table]) -> None:
    """Refuse a column that no file has."""
    names = sorted({column for table in tables.values() for column in table.column_names})
    if name not in names:
        raise DataError(f"no file has a column {name!r}; {suggest(name, names)}")


def make_fields(config: Configuration, tables: Mapping[str, pa.Table]) -> Iterator[Field]:
    """The fields that are configured, or else every column that is nothing else."""
    data = config.data
    apart = {data.id, data.file_column, data.truth, *data.ignore} - {None}
    if config.fields:
        for name, table in config.fields.items():
            check_type(name, tables)
            for column in apart & {name, *table.columns}:
                raise ConfigError(
                    f"{column!r} is a field and also set apart as id, file, truth or ignored"
                )
            yield make_field(name, table, config)
        return
    for name in dict.fromkeys(c for table in tables.values() for c in table.column_names):
        if name in apart:
            continue
        for file, table in tables.items():
            if name not in table.column_names:
                near = closest(name, table.column_names)
                meant = f"did you mean {near!r}? Rename it, or leave" if near else "leave"
                raise DataError(
                    f"file {file!r} has no column {name!r}, which other files have; {meant} the "
                    f"column out with --ignore {name!r}"
                )
        yield make_field(name, FieldTable(), config)


def check_type(name: str, tables: Mapping[str, pa.Table]) -> None:
    """Refuse COL:TYPE with a type that there is none of."""
    column, _, kind = name.rpartition(":")
    names = {name for table in tables.values() for name in table.column_names}
    if name not in names and column in names:
        raise ConfigError(
            f"--field {name}: there is no type {kind!r}; {suggest(kind, FIELD_TYPES)}"
        )


def make_field(name: str, table: FieldTable, config: Configuration) -> Field:
    """A field as configured."""
    given = config.model.model_dump(include={"a", "b", "mu"}, exclude_none=True)
    if set(table.columns or [name]) <= set(config.data.blocks):
        given.pop("b", None)  # what makes blocks is never distorted, unless the field says so
    given |= table.model_dump(include={"a", "b", "mu", "changes"}, exclude_none=True)
    if table.type == "exact":
        given["b"] = math.inf
    if table.type == "joint":
        if len(table.columns) < 2:
            raise ConfigError(f"fields.{name}: a joint field needs columns = [...], two or more")
        for column in table.types:
            if column not in table.columns:
                raise ConfigError(
                    f"fields.{name}: types names {column!r}, which is no column of it"
                )
        columns = [
            NEAR_FIELDS[table.types[column]][0](column) if column in table.types else column
            for column in table.columns
        ]
        return Joint(*columns, name=name, slips=bool(table.slips), **given)
    if table.columns and table.columns != [name]:
        raise ConfigError(f"fields.{name}: columns are for joint fields; name the field {name!r}")
    kind, takes = NEAR_FIELDS.get(table.type, (Categorical, ()))
    own = table.model_dump(include=NEAR_SETTINGS, exclude_none=True)
    for key in own:
        if key not in takes:
            raise ConfigError(f"fields.{name}: {key} does not belong to a {table.type} field")
    if table.type in NEAR_FIELDS:
        if table.mu is not None:
            raise ConfigError(f"fields.{name}: mu does not belong to a {table.type} field")
        given.pop("mu", None)
    return kind(name, **given, **own)


NEAR_SETTINGS = {"similarity", "threshold", "scale", "within", "format", "may_equal", "slips"}
NEAR_FIELDS: dict[str, tuple[Any, set[str]]] = {
    "text": (Text, {"similarity", "threshold", "scale", "may_equal"}),
    "number": (Number, {"within", "scale", "may_equal"}),
    "date": (Date, {"format", "within", "scale", "may_equal"}),
}


PAIRS: dict[str, Any] = {
    "informed": InformedPairs,
    "uniform": UniformPairs,
    "rotating": RotatingBlocks,
}


def make_prior(table: PriorTable) -> PriorChoice:
    """The prior as configured; what is not given is learned."""
    given = table.model_dump(exclude={"type"}, exclude_none=True)
    kinds: dict[str, tuple[Any, set[str]]] = {
        "uniform-labels": (UniformLabels, set()),
        "uniform-partitions": (UniformPartitions, set()),
        "ewens": (Ewens, {"concentration"}),
        "pitman-yor": (PitmanYor, {"concentration", "discount"}),
        "cluster-sizes": (ClusterSizes, {"strength", "files", "blocks"}),
    }
    kind, takes = kinds[table.type]
    for key in given:
        if key not in takes:
            raise ConfigError(f"model.prior: {key} does not belong to the prior {table.type!r}")
    if given.get("discount") == "learned":
        given["discount"] = None
    prior: PriorChoice = kind(**given)
    return prior
