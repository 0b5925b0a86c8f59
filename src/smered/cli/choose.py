"""From flags and link.toml to one configuration."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from smered.config import FIELD_TYPES, Configuration, load_config, merge
from smered.errors import ConfigError

__all__ = ["configure", "split_field"]


def configure(
    config: Path | None,
    *,
    files: Sequence[str] | None,
    fields: Sequence[str] | None,
    no_duplicates: bool | None,
    no_duplicates_in: Sequence[str] | None,
    data: Mapping[str, Any],
    sampling: Mapping[str, Any] | None = None,
) -> Configuration:
    """What link.toml says, with what the flags say instead."""
    found = load_config(config) if config is not None else Configuration()
    changes: dict[str, dict[str, Any]] = {
        "data": {key: value or None for key, value in data.items()} | {"files": files or None},
        "sampling": dict(sampling or {}),
    }
    if no_duplicates and no_duplicates_in:
        raise ConfigError("give --no-duplicates for all files, or --no-duplicates-in for some")
    if no_duplicates:
        changes["data"]["duplicates"] = False
    elif no_duplicates_in:
        changes["data"]["duplicates"] = dict.fromkeys(no_duplicates_in, False)
    if fields:
        kept = found.model_dump()["fields"]
        chosen = dict(split_field(text) for text in fields)
        changes["fields"] = {
            name: kept.get(name, {}) | ({"type": kind} if kind else {})
            for name, kind in chosen.items()
        }
    merged = merge(found, changes)
    if not merged.data.files:
        raise ConfigError("no files given; name at least one, or list them in link.toml")
    return merged


def split_field(text: str) -> tuple[str, str | None]:
    """A field and its type; what follows a colon is the type only if it is one."""
    name, colon, kind = text.rpartition(":")
    if colon and kind in FIELD_TYPES:
        if kind == "joint":
            raise ConfigError(f"--field {text}: joint fields are set up in link.toml")
        return name, kind
    return text, None
