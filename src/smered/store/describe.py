"""A model as plain JSON and back: what a run folder says about itself, and nothing executable."""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

from smered.errors import ConfigError, RunError
from smered.fields import Categorical, Date, Field, Joint, Number, Text
from smered.fields.near import OWN_SIMILARITY
from smered.model import Model, as_fields
from smered.pairs import InformedPairs, PairChoice, RotatingBlocks, UniformPairs
from smered.priors import (
    ClusterSizes,
    Ewens,
    PitmanYor,
    PriorChoice,
    UniformLabels,
    UniformPartitions,
)
from smered.records import Records

__all__ = ["describe_model", "rebuild_model"]

# The only names that a description may hold. A new field type, prior or pair choice joins here.
FIELDS = {"Categorical": Categorical, "Joint": Joint, "Text": Text, "Number": Number, "Date": Date}
PRIORS = {
    "UniformLabels": UniformLabels,
    "UniformPartitions": UniformPartitions,
    "Ewens": Ewens,
    "PitmanYor": PitmanYor,
    "ClusterSizes": ClusterSizes,
}
PAIRS = {choice.__name__: choice for choice in (InformedPairs, RotatingBlocks, UniformPairs)}
INFINITY = "inf"  # JSON has no infinity


def describe_model(model: Model) -> dict[str, Any]:
    """Describe everything about a model but its records."""
    return {
        "fields": [describe(field) for field in as_fields(model.fields)],
        "duplicates": dict(zip(model.records.files, (~model.single).tolist(), strict=True)),
        "distortion": model.distortion,
        "prior": describe(model.prior),
        "pairs": describe(model.pairs),
        "classes": model.classes,
        "time_order": list(model.time_order),
    }


def rebuild_model(description: Mapping[str, Any], records: Records) -> Model:
    """Build the model that was described, on the same records."""
    try:
        model = Model(
            records=records,
            fields=[build_field(part) for part in description["fields"]],
            duplicates=dict(description["duplicates"]),
            distortion=description["distortion"],
            prior=build_prior(description["prior"]),
            pairs=build_pairs(description["pairs"]),
            classes=description["classes"],
            time_order=tuple(description["time_order"]),
        )
        if len(records):  # the driver of a cluster has none
            _ = model.coded  # columns are found now
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise RunError(f"run.json does not describe a model ({error!r})") from None
    return model


def describe(part: object) -> dict[str, Any]:
    """The type and the settings of a field, prior or pair choice."""
    name = type(part).__name__
    if name not in FIELDS | PRIORS | PAIRS:
        raise ConfigError(f"{name} cannot be kept in a run folder; sample in memory instead")
    settings = vars(part).copy() if dataclasses.is_dataclass(part) else {}
    if callable(settings.get("similarity")):
        settings["similarity"] = OWN_SIMILARITY  # the folder keeps what it found
    if isinstance(part, Joint):
        settings["parts"] = [describe(one) for one in part.parts]
    if isinstance(part, Ewens):
        del settings["discount"]
    return {"type": name} | {
        key: INFINITY if value == math.inf else value for key, value in settings.items()
    }


def settings_of(description: Mapping[str, Any]) -> dict[str, Any]:
    """The settings in a description, with infinity restored."""
    return {
        key: math.inf if key == "b" and value == INFINITY else value
        for key, value in description.items()
        if key != "type"
    }


def build_field(description: Mapping[str, Any]) -> Field:
    """Build a field from its description."""
    settings = settings_of(description)
    if description["type"] == "Joint":
        near = {part["column"]: build_field(part) for part in settings.pop("parts")}
        columns = [near.get(name, name) for name in settings.pop("columns")]
        return Joint(*columns, name=settings.pop("label"), **settings)
    return FIELDS[description["type"]](**settings)


def build_prior(description: Mapping[str, Any]) -> PriorChoice:
    """Build a prior from its description."""
    prior: PriorChoice = PRIORS[description["type"]](**settings_of(description))
    return prior


def build_pairs(description: Mapping[str, Any]) -> PairChoice:
    """Build a pair choice from its description."""
    pairs: PairChoice = PAIRS[description["type"]](**settings_of(description))
    return pairs
