"""Several columns read as one field, for columns that depend on each other."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from smered.errors import ConfigError
from smered.fields.categorical import DEFAULT_MU, Categorical, finish_field
from smered.fields.field import (
    DEFAULT_A,
    DEFAULT_B,
    CodedField,
    Similar,
    check_rates,
    warn_of_useless,
)
from smered.fields.near import TWIN, Date, Number, Text
from smered.layout import Bools, Floats, Int32s, Int64s
from smered.near import Partial
from smered.records import Column, Records, number_rows
from smered.similar import Neighbours, neighbours

__all__ = ["Joint"]

UNKNOWN = "?"  # in the name of a value of which a part is missing
Part = str | Categorical | Text | Number | Date


@dataclass(frozen=True)
class Joint:
    """Several columns read as one field, for columns that depend on each other.

    Columns are given by name, or as `Text`, `Number` or `Date`: two values are then near each other
    if one part of them slips and the others agree. Where a part is missing, the others count: the
    value may be any that agrees with them. `slips`: any two values that differ in a single part are
    near each other, where parts are recorded wrongly one by one. `a`, `b`, `mu` and `changes` are
    as in `Categorical`; levels are written `state | office`. `mu` matters only where no part is
    missing and no value near another.
    """

    columns: tuple[str, ...]
    label: str | None = None
    a: float = DEFAULT_A
    b: float | None = None
    mu: float | Mapping[str, float] = DEFAULT_MU
    changes: bool = False
    slips: bool = False
    parts: tuple[Text | Number | Date, ...] = ()  # those columns that are no categories

    def __init__(
        self,
        *columns: Part,
        name: str | None = None,
        a: float = DEFAULT_A,
        b: float | None = None,
        mu: float | Mapping[str, float] = DEFAULT_MU,
        changes: bool = False,
        slips: bool = False,
    ) -> None:
        names = tuple(part if isinstance(part, str) else part.column for part in columns)
        near = tuple(part for part in columns if isinstance(part, Text | Number | Date))
        given = {"columns": names, "label": name, "a": a, "b": b, "mu": mu, "changes": changes}
        for key, value in (given | {"slips": slips, "parts": near}).items():
            object.__setattr__(self, key, value)
        if len(set(names)) < 2 or len(set(names)) < len(names):
            raise ConfigError(f"Joint needs two or more different columns, not {names}")
        check_rates(self.name, self.a, self.b)

    @property
    def name(self) -> str:
        """The name given, or the columns' names, joined."""
        return self.label or " | ".join(self.columns)

    def code(self, records: Records) -> CodedField:
        """Code each combination of values that occurs as one level."""
        columns = [records.columns[name] for name in self.columns]
        codes = np.stack([column.codes for column in columns], axis=1)
        b = self.b
        if b is None:
            b = math.inf if set(self.columns) <= set(records.block_columns) else DEFAULT_B
        whole, some = (codes >= 0).all(axis=1), (codes >= 0).any(axis=1)
        found = np.full(len(codes), -1, np.int32)
        found[whole] = number_rows(list(codes[whole].T), int(whole.sum()))
        values = codes[whole][np.unique(found[whole], return_index=True)[1]]
        names = combined(columns, values)
        partial = np.asarray(some & ~whole & (len(values) > 0), np.bool_)
        if math.isinf(b) or not (self.parts or self.slips or partial.any()):
            return finish_field(self, found, names, records)

        number = number_rows(list(codes[partial].T), int(partial.sum()))
        gaps = codes[partial][np.unique(number, return_index=True)[1]]
        sets, known = sets_of(gaps, values)
        partial[np.flatnonzero(partial)[~known[number]]] = False  # nothing whole agrees with it
        number, gaps = (np.cumsum(known) - 1)[number[known[number]]], gaps[known]
        warn_of_useless(self.name, len(values), int(some.sum()))
        may_equal = not self.parts and not self.slips  # nothing is near, so nothing needs twins
        levels = [names]
        if not may_equal:
            levels.append(pc.binary_join_element_wise(pa.scalar(TWIN), names, ""))
        first = sum(map(len, levels))
        found[partial] = first + number.astype(np.int32)
        levels.append(combined(columns, gaps))
        joined = pa.concat_arrays(levels)
        near = NearValues(self, columns, values, records)
        similar = Similar(near.find, 0.0, near.scale, may_equal, near.keys)
        return CodedField(
            self.name, found, joined, np.zeros(len(joined)), self.a, b, similar, sets
        )  # fmt: skip


def combined(columns: Sequence[Column], codes: Int32s) -> pa.Array:
    """Names of combinations of values (m, columns); a missing part is a question mark."""
    names = [
        pc.fill_null(column.levels.cast(pa.string()).take(pa.array(part, mask=part < 0)), UNKNOWN)
        for column, part in zip(columns, codes.T, strict=True)
    ]
    return pc.binary_join_element_wise(*names, " | ")


def sets_of(gaps: Int32s, values: Int32s) -> tuple[Partial, Bools]:
    """The values that agree with each value of which parts are missing, and if there are any."""
    lists: list[Int64s] = [np.empty(0, np.int64)] * len(gaps)
    kinds = number_rows(
        [(gaps[:, i] >= 0).astype(np.int32) for i in range(gaps.shape[1])], len(gaps)
    )
    for kind in np.unique(kinds):
        own = np.flatnonzero(kinds == kind)
        shown = np.flatnonzero(gaps[own[0]] >= 0)
        both = np.concatenate((gaps[own][:, shown], values[:, shown]))
        key = number_rows(list(both.T), len(both))
        order = np.argsort(key[len(own) :], kind="stable")
        ordered = key[len(own) :][order]
        bounds = np.searchsorted(ordered, np.stack((key[: len(own)], key[: len(own)] + 1)))
        for gap, start, end in zip(own.tolist(), *bounds.tolist(), strict=True):
            lists[gap] = np.sort(order[start:end])
    sizes = np.array([len(one) for one in lists], np.int64)
    start = np.concatenate(([0], np.cumsum(sizes[sizes > 0])))
    agreeing = np.concatenate([*lists, np.empty(0, np.int64)]).astype(np.int32)
    return Partial(start, agreeing), sizes > 0


def pairs_within(group: Int32s) -> tuple[Int64s, Int64s]:
    """All pairs of things of the same group."""
    order = np.argsort(group, kind="stable")
    new = np.append(True, group[order][1:] != group[order][:-1])[: len(group)]
    first = np.maximum.accumulate(np.where(new, np.arange(len(group)), 0))
    before = np.arange(len(group)) - first  # things of the group that come earlier
    two = np.repeat(np.arange(len(group)), before)
    within = np.arange(len(two)) - np.repeat(np.cumsum(before) - before, before)
    return order[first[two] + within].astype(np.int64), order[two].astype(np.int64)


class NearValues:
    """Which combinations are near each other: those that differ in one part, by a slip."""

    def __init__(
        self, field: Joint, columns: Sequence[Column], values: Int32s, records: Records
    ) -> None:
        self.field, self.columns, self.values = field, columns, values
        self.scale = max((part.scale for part in field.parts), default=0.0)
        self._known = records.neighbours

    def find(self) -> Neighbours:
        """The near combinations of each."""
        if self.field.name in self._known:
            return self._known[self.field.name]
        n = len(self.values)
        ones, twos = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        strengths: list[Floats] = [np.empty(0)]
        if self.field.slips:
            for i in range(self.values.shape[1]):
                if self.field.columns[i] not in {part.column for part in self.field.parts}:
                    one, two = pairs_within(self._others[i])
                    ones.append(one)
                    twos.append(two)
                    strengths.append(np.zeros(len(one)))
        for part in self.field.parts:
            i = self.field.columns.index(part.column)
            one, two, similarity = part.similar_values(self.columns[i].levels.cast(pa.string()))
            others = number_rows(list(np.delete(self.values, i, axis=1).T), n)
            width = len(self.columns[i].levels)
            key = others * width + self.values[:, i]
            order = np.argsort(key, kind="stable")
            by_value = np.argsort(self.values[:, i], kind="stable")
            bounds = np.searchsorted(self.values[by_value, i], np.arange(width + 1, dtype=np.int64))
            counts = np.diff(bounds)[one]
            pair = np.repeat(np.arange(len(one)), counts)
            within = np.arange(len(pair)) - np.repeat(np.cumsum(counts) - counts, counts)
            here = by_value[bounds[one[pair]] + within]
            wanted = others[here] * width + two[pair]
            at = np.minimum(np.searchsorted(key[order], wanted), n - 1)
            there = order[at]
            right = key[there] == wanted
            threshold = part.least_similar
            step = np.clip((similarity[pair] - threshold) / (1 - threshold), 0.0, 1.0)
            ones.append(here[right].astype(np.int64))
            twos.append(there[right].astype(np.int64))
            strengths.append(step[right] * part.scale / (self.scale or 1.0))
        return neighbours(np.concatenate(ones), np.concatenate(twos), np.concatenate(strengths), n)

    @cached_property
    def _others(self) -> list[Int32s]:
        """All columns but one, numbered: near combinations agree in one of these."""
        n = len(self.values)
        return [
            number_rows(list(np.delete(self.values, i, axis=1).T), n).astype(np.int32)
            for i in range(self.values.shape[1])
        ]

    def keys(self) -> list[Int32s]:
        """Keys that near combinations share."""
        return [self._others[self.field.columns.index(part.column)] for part in self.field.parts]
