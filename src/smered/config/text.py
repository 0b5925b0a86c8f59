"""A configuration as the text of a link.toml, with comments."""

import json
import math
import re
import textwrap
from collections.abc import Mapping
from typing import Any

from smered.config.schema import Configuration
from smered.fields.field import DEFAULT_A, DEFAULT_B

__all__ = ["write_toml"]

HELP = {
    "files": "the tables, one per file",
    "id": "column with ids, unique within a file",
    "file_column": "column that says which file a row came from",
    "truth": "column with the true entity, if it is known",
    "ignore": "columns not to compare",
    "missing": "values that mean missing, besides an empty one",
    "blocks": "records that differ in one of these columns are never linked",
    "duplicates": "whether a file may hold an entity twice: true, false, or { name = false }",
    "time_order": "files from the earliest to the latest, for fields that change over time",
    "encoding": "encoding of CSV files; found out if not given",
    "delimiter": "delimiter of CSV files; found out if not given",
}


def write_toml(config: Configuration, reasons: Mapping[str, str]) -> str:
    """A configuration as TOML; `reasons` say why, by key."""
    model = config.model.model_dump()
    lines = comment("What smered links, and how. Flags of the command go before what stands here.")
    lines += ["", "[data]"]
    for key, value in config.data.model_dump().items():
        lines += comment(HELP[key])
        for name, reason in reasons.items():
            if name == key or name.startswith(f"{key}."):
                lines += comment(f"guessed: {reason}")
        lines.append(assignment(key, value))
    lines += ["", "[model]", *comment('distortion rates by "field", or by "file" and field')]
    lines.append(assignment("distortion", model["distortion"]))
    lines += comment("latent classes of entities, where fields depend on each other: 16, say")
    lines.append(assignment("classes", model["classes"]))
    lines += comment(
        "which pairs are proposed: informed (candidates), rotating (blocks that change, "
        "where there are none) or uniform; the answer does not depend on it"
    )
    lines.append(assignment("pairs", model["pairs"]))
    lines += comment("each distortion rate is Beta(a, b), each field's levels are Dirichlet(mu)")
    for key, default in {"a": DEFAULT_A, "b": DEFAULT_B, "mu": 1.0}.items():
        given = model[key] is not None
        lines.append(assignment(key, model[key]) if given else f"# {key} = {default}")
    lines += ["", "[model.prior]"]
    lines += comment("on the linkage: cluster-sizes learns how many records an entity has, and in "
                     "which files where these hold nobody twice (files = false: sizes alone), each "
                     "block by itself (blocks = false: all alike); others: "
                     "uniform-labels (the paper's), uniform-partitions, ewens or pitman-yor, whose "
                     'concentration is learned if not given, as is discount = "learned"'
                     )  # fmt: skip
    if "prior" in reasons:
        lines += comment(f"guessed: {reasons['prior']}")
    lines += [assignment(key, value) for key, value in model["prior"].items()]
    lines += ["", "[sampling]"]
    if "sampling" in reasons:
        lines += comment(f"guessed: {reasons['sampling']}")
    lines += [assignment(key, value) for key, value in config.sampling.model_dump().items()]
    for name, field in config.fields.items():
        lines += ["", f"[fields.{toml_key(name)}]"]
        if f"fields.{name}" in reasons:
            lines += comment(reasons[f"fields.{name}"])
        shown = {
            key: value for key, value in field.model_dump().items() if value not in (None, [], {})
        }
        lines += [assignment(key, value) for key, value in shown.items()]
    return "\n".join(lines) + "\n"


def comment(text: str) -> list[str]:
    """A comment in as many lines as it needs; a line break in it cannot end it."""
    return [f"# {line}" for line in textwrap.wrap(" ".join(text.split()), 96)]


def assignment(key: str, value: Any) -> str:
    """One line of TOML; a setting without a value is commented out."""
    return f"# {key} =" if value is None else f"{key} = {toml_value(value)}"


def toml_key(name: str) -> str:
    """A name as a key of TOML."""
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else toml_value(name)


def toml_value(value: Any) -> str:
    """A value of TOML."""
    if isinstance(value, dict):
        inside = ", ".join(f"{toml_key(k)} = {toml_value(v)}" for k, v in value.items())
        return f"{{ {inside} }}"
    if isinstance(value, list):
        return f"[{', '.join(map(toml_value, value))}]"
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)  # inf, -inf or nan, as TOML writes them
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
