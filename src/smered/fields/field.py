"""What the model asks of a field type, and what it gets: codes, levels and hyperparameters."""

import math
import warnings
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from smered.errors import ConfigError, DataWarning
from smered.fields.keys import hub_key
from smered.layout import Floats, Int32s, Int64s
from smered.near import NearTables, Partial, near_tables
from smered.records import Records
from smered.similar import Neighbours

__all__ = ["DEFAULT_A", "DEFAULT_B", "LARGEST", "CodedField", "Field", "OneColumn"]
__all__ += ["Similar", "check_rates", "warn_of_useless"]

LARGEST = 1e12  # of a hyperparameter: beyond, the numbers of a sweep lose their digits
DEFAULT_A, DEFAULT_B = 1.0, 49.0  # one value in fifty is expected to be wrong, by a weak prior


class Similar(NamedTuple):
    """How values of a field are similar, and what that does to distorted ones; see `smered.near`.

    Neighbours and keys may take a while to find: they are asked for when they are needed.
    """

    find: Callable[[], Neighbours]
    threshold: float
    scale: float
    may_equal: bool
    find_keys: Callable[[], list[Int32s]]  # (levels,) values that share a key may be similar


@dataclass(frozen=True)
class CodedField:
    """A field as the model holds it: codes, level names and hyperparameters."""

    name: str
    codes: Int32s  # (n,) -1 where missing
    levels: pa.Array  # text, one per level; with twins after them, see `smered.near`
    mu: Floats  # (levels,) 0 where distorted values fall near the true one: phi is not learned
    a: float
    b: float
    similar: Similar | None = None
    partial: Partial | None = None  # what the last levels stand for, which show a part of a value

    @property
    def exact(self) -> bool:
        """Whether the field is never distorted (b = infinity: organic blocking)."""
        return math.isinf(self.b)

    @property
    def values(self) -> int:
        """Number of levels that are values, not twins of values."""
        twins = self.similar is not None and not self.similar.may_equal
        whole = len(self.levels) - (0 if self.partial is None else len(self.partial.start) - 1)
        return whole // 2 if twins else whole

    @cached_property
    def neighbours(self) -> Neighbours:
        """The similar values of each level; only where there is `similar`."""
        assert self.similar is not None
        return self.similar.find()

    @cached_property
    def shown(self) -> Int64s:
        """Records that show each level (levels,)."""
        return np.bincount(self.codes[self.codes >= 0], minlength=len(self.mu)).astype(np.int64)

    @cached_property
    def share(self) -> Floats:
        """The share of records that show each value, of those that show any (values,)."""
        shown = self.shown[: self.values]
        return shown / max(shown.sum(), 1)

    @property
    def base_shares(self) -> Floats:
        """Level probabilities before they are learned: shares, smoothed by mu (levels,)."""
        weights: Floats = self.mu + self.shown
        return weights / weights.sum()

    def over(self, codes: Int32s) -> "CodedField":
        """The field over other records, with what was counted over all of them."""
        other = copy(self)
        object.__setattr__(other, "codes", codes)
        return other

    @cached_property
    def near(self) -> NearTables:
        """How distorted values fall near the true one; only where there is `similar`."""
        assert self.similar is not None
        return near_tables(self.neighbours, self.share, *self.similar[1:4], self.partial)

    @cached_property
    def keys(self) -> list[Int32s]:
        """Keys that similar values share, each (levels,); none where values agree or differ."""
        if self.similar is None:
            return []
        found = [hub_key(self.neighbours, self.share), *self.similar.find_keys()]
        rest = np.full(len(self.levels) - self.values, -1, np.int32)  # shown in part: no key
        return [np.concatenate((key, rest)) for key in found]


class Field(Protocol):
    """What the model asks of a field type."""

    @property
    def name(self) -> str:
        """How the field is called everywhere."""
        ...

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the input that the field reads."""
        ...

    @property
    def changes(self) -> bool:
        """Whether the true value may change from one file to the next in time."""
        ...

    def code(self, records: Records) -> CodedField:
        """Code the field's values for every record."""
        ...


class OneColumn:
    """What fields have in common that read one column and are called like it."""

    column: str

    @property
    def name(self) -> str:
        """The column's name."""
        return self.column

    @property
    def columns(self) -> tuple[str, ...]:
        """The one column read."""
        return (self.column,)


def warn_of_useless(name: str, values: int, shown: int) -> None:
    """Warn of a field that cannot do its work, by its values and the records that show one."""
    if shown == 0:
        warnings.warn(f"field {name!r} is missing in every record", DataWarning, stacklevel=7)
    elif values == shown > 1:
        warnings.warn(
            f"field {name!r} has a different value in every record: it cannot link any; "
            "leave it out (an id is not a field)",
            DataWarning,
            stacklevel=7,
        )


def check_rates(name: str, a: float, b: float | None) -> None:
    """Refuse hyperparameters of the distortion rate that define no distribution."""
    if not 0 < a <= LARGEST:
        raise ConfigError(f"field {name!r}: a = {a} must be a positive number up to {LARGEST:g}")
    if b is not None and not (0 < b <= LARGEST or b == math.inf):
        raise ConfigError(
            f"field {name!r}: b = {b} must be a positive number up to {LARGEST:g}, or infinite, "
            "which forbids distortion"
        )
