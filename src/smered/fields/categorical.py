"""Fields whose values either agree or differ."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa

from smered.errors import ConfigError
from smered.fields.field import (
    DEFAULT_A,
    DEFAULT_B,
    LARGEST,
    CodedField,
    Field,
    OneColumn,
    check_rates,
    warn_of_useless,
)
from smered.layout import Int32s
from smered.records import Records

__all__ = ["DEFAULT_MU", "Categorical", "finish_field"]

DEFAULT_MU = 1.0  # the paper's


@dataclass(frozen=True)
class Categorical(OneColumn):
    """A column whose values either agree or differ.

    `a`, `b`: the distortion rate is Beta(a, b); `b=math.inf` forbids distortion, so that linked
    records must agree. Left out, b is 10, or infinite for a column that also defines blocks.
    `mu`: the level probabilities are Dirichlet(mu), one number for all levels, or a mapping from
    level to number, which may name levels that the data do not show. `changes`: the true value may
    change from one file to the next in time, as a place or a name does.
    """

    column: str
    a: float = DEFAULT_A
    b: float | None = None
    mu: float | Mapping[str, float] = DEFAULT_MU
    changes: bool = False

    def __post_init__(self) -> None:
        check_rates(self.column, self.a, self.b)

    def code(self, records: Records) -> CodedField:
        """Code the column, with room for levels that only `mu` names."""
        column = records.columns[self.column]
        return finish_field(self, column.codes, column.levels.cast(pa.string()), records)


class Labelled(Field, Protocol):
    """A field of which level probabilities are learned."""

    @property
    def a(self) -> float:
        """Of the distortion rate's Beta(a, b)."""
        ...

    @property
    def b(self) -> float | None:
        """The same."""
        ...

    @property
    def mu(self) -> float | Mapping[str, float]:
        """Of the level probabilities' Dirichlet(mu)."""
        ...


def finish_field(field: Labelled, codes: Int32s, levels: pa.Array, records: Records) -> CodedField:
    """Attach hyperparameters to coded values, and warn of fields that cannot do their work."""
    shown = len(levels)
    if isinstance(field.mu, Mapping):
        given = {str(level): float(value) for level, value in field.mu.items()}
        unseen = sorted(set(given) - set(levels.to_pylist()))
        levels = pa.concat_arrays([levels, pa.array(unseen, pa.string())])
        mu = np.array([given.get(level, DEFAULT_MU) for level in levels.to_pylist()], np.float64)
    else:
        mu = np.full(len(levels), field.mu, np.float64)
    impossible = np.flatnonzero(~((mu > 0) & (mu <= LARGEST)))
    if len(impossible):
        bad = levels[int(impossible[0])].as_py()
        raise ConfigError(
            f"field {field.name!r}: mu of level {bad!r} must be a positive number up to {LARGEST:g}"
        )
    warn_of_useless(field.name, shown, int(np.count_nonzero(codes >= 0)))
    if len(levels) == 0:
        levels, mu = pa.array(["(none)"]), np.ones(1)
    b = field.b
    if b is None:
        b = math.inf if set(field.columns) <= set(records.block_columns) else DEFAULT_B
    return CodedField(field.name, codes, levels, mu, field.a, b)
