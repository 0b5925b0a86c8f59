"""link.toml: reading and checking it, building a model from it, writing it."""

from smered.config.build import check_headers, code_on_cluster, make_model
from smered.config.schema import (
    FIELD_TYPES,
    Configuration,
    FieldTable,
    load_config,
    merge,
    plain_values,
)
from smered.config.text import write_toml

__all__ = [
    "FIELD_TYPES",
    "Configuration",
    "FieldTable",
    "check_headers",
    "code_on_cluster",
    "load_config",
    "make_model",
    "merge",
    "plain_values",
    "write_toml",
]
