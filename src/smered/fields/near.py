"""Fields whose distorted values fall near the true one: texts, numbers and dates."""

import datetime
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from smered.errors import ConfigError
from smered.fields.field import (
    DEFAULT_A,
    DEFAULT_B,
    CodedField,
    OneColumn,
    Similar,
    check_rates,
    warn_of_useless,
)
from smered.fields.keys import digits, number_keys, qgram, sound
from smered.layout import Floats, Int32s, Int64s
from smered.records import Records
from smered.similar import Neighbours, Similarity, find_similar, neighbours

__all__ = ["TWIN", "Date", "Number", "Text"]

Pairs = tuple[Int64s, Int64s, Floats]
OWN_SIMILARITY = "own"  # of a user in a run folder, which keeps what it found

DEFAULT_THRESHOLD, DEFAULT_SCALE = 0.6, 10.0
TWIN = "~"  # before a value: all values near it that no record shows
SLIP = 0.5  # similarity of numbers and dates that one slip turns into each other
COMPACT = "%Y%m%d"
DATE_FORMATS = ("%Y-%m-%d", COMPACT, "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%Y/%m/%d")


@dataclass(frozen=True)
class Text(OneColumn):
    """A column of names, addresses and the like, whose errors are mostly small.

    Values whose `similarity` ("damerau", "levenshtein", "jaro-winkler", or a function of two texts
    that returns 0 to 1) is at least `threshold` are near each other; by edits, they also lie at
    most two edits apart. A distorted value is a slip to one of them, or any value; the share of
    slips is learned. A slip prefers similar values by exp(s), s from 0 at the threshold to `scale`
    at equality. `may_equal`: whether a slip may leave the value as it is. `a`, `b`: the distortion
    rate is Beta(a, b). `changes`: the true value may change from one file to the next in time.
    """

    column: str
    similarity: Similarity = "damerau"
    threshold: float = DEFAULT_THRESHOLD
    scale: float = DEFAULT_SCALE
    may_equal: bool = False
    a: float = DEFAULT_A
    b: float | None = None
    changes: bool = False

    def __post_init__(self) -> None:
        check_rates(self.column, self.a, self.b)
        check_scale(self.column, self.scale)
        if not 0 <= self.threshold < 1:
            raise ConfigError(
                f"field {self.column!r}: threshold = {self.threshold} must be in [0, 1)"
            )

    @property
    def least_similar(self) -> float:
        """The similarity from which on values are near."""
        return self.threshold

    def similar_values(self, levels: pa.Array) -> Pairs:
        """Pairs of near values, and how similar they are."""
        return find_similar(levels.to_pylist(), self.similarity, self.threshold)

    def code(self, records: Records) -> CodedField:
        """Code the column; similar values are found when they are needed."""

        def keys(values: Sequence[str]) -> list[Int32s]:
            return [number_keys(values, key) for key in (sound, qgram)]

        return code_near(self, records, keys)


@dataclass(frozen=True)
class Number(OneColumn):
    """A column of numbers: years, ages, house numbers, telephone numbers.

    Numbers at most `within` apart are near each other, the nearer the more; so are numbers that
    differ by one digit, or by two neighbouring digits that changed places. `scale`, `may_equal`,
    `a`, `b` and `changes` are as in `Text`.
    """

    column: str
    within: float = 1.0
    scale: float = DEFAULT_SCALE
    may_equal: bool = False
    a: float = DEFAULT_A
    b: float | None = None
    changes: bool = False

    def __post_init__(self) -> None:
        check_rates(self.column, self.a, self.b)
        check_scale(self.column, self.scale)
        if not 0 <= self.within < math.inf:
            raise ConfigError(f"field {self.column!r}: within = {self.within} must be 0 or more")

    least_similar = 0.0

    def similar_values(self, levels: pa.Array) -> Pairs:
        """Pairs of near values, and how similar; what is no number is near by its digits alone."""
        values = levels.to_pylist()
        if values and np.isnan([as_number(value) for value in values]).all():
            raise ConfigError(
                f"field {self.name!r}: no value such as {values[0]!r} is a number; make it "
                "text or categorical"
            )
        return together(slips(values), close_numbers(values, self.within))

    def code(self, records: Records) -> CodedField:
        """Code the column; similar values are found when they are needed."""
        return code_near(self, records, digit_keys)


@dataclass(frozen=True)
class Date(OneColumn):
    """A column of dates.

    Dates are near each other if they lie at most `within` days or exactly one year apart, if day
    and month changed places, or if one digit differs or two neighbouring ones changed places.
    `format` is that of `datetime.strptime`; left out, the common one that reads most values.
    `scale`, `may_equal`, `a`, `b` and `changes` are as in `Text`.
    """

    column: str
    format: str | None = None
    within: int = 1
    scale: float = DEFAULT_SCALE
    may_equal: bool = False
    a: float = DEFAULT_A
    b: float | None = None
    changes: bool = False

    def __post_init__(self) -> None:
        check_rates(self.column, self.a, self.b)
        check_scale(self.column, self.scale)
        if self.within < 0 or self.within != int(self.within):
            raise ConfigError(
                f"field {self.column!r}: within = {self.within} must be a whole number of days"
            )

    least_similar = 0.0

    def similar_values(self, levels: pa.Array) -> Pairs:
        """Pairs of near values, and how similar; what is no date is near by its digits alone."""
        values = levels.to_pylist()
        dates = read_dates(values, self.format)
        if not any(dates):
            known = f"of the format {self.format!r}" if self.format else "in a common format"
            raise ConfigError(
                f"field {self.name!r}: no value such as {values[0]!r} is a date {known}; say "
                'its format, such as format = "%d.%m.%y", or make it text or categorical'
            )
        texts = [
            value if date is None else date.strftime("%Y%m%d")
            for value, date in zip(values, dates, strict=True)
        ]
        return together(slips(texts), close_dates(dates, int(self.within)))

    def code(self, records: Records) -> CodedField:
        """Code the column; similar values are found when they are needed."""
        return code_near(self, records, digit_keys)


def digit_keys(values: Sequence[str]) -> list[Int32s]:
    """The keys of numbers and dates."""
    return [number_keys(values, digits)]


def check_scale(name: str, scale: float) -> None:
    """Refuse a scale that no number can be multiplied by."""
    if not 0 <= scale <= 50:
        raise ConfigError(f"field {name!r}: scale = {scale} must be between 0 and 50")


def code_near(
    field: Text | Number | Date,
    records: Records,
    keys: Callable[[Sequence[str]], list[Int32s]],
) -> CodedField:
    """Code a column whose near values share `keys`."""
    column = records.columns[field.column]
    levels = column.levels.cast(pa.string())
    b = field.b
    if b is None:
        b = math.inf if set(field.columns) <= set(records.block_columns) else DEFAULT_B
    if len(levels) == 0:
        warn_of_useless(field.name, 0, 0)
        return CodedField(field.name, column.codes, pa.array(["(none)"]), np.ones(1), field.a, b)
    if math.isinf(b):  # never distorted: values agree or differ
        return CodedField(field.name, column.codes, levels, np.ones(len(levels)), field.a, b)

    shown = levels

    def find() -> Neighbours:
        if field.name in records.neighbours:
            return records.neighbours[field.name]
        return neighbours(*field.similar_values(shown), len(shown))

    own_keys = partial(keys, shown.to_pylist())
    similar = Similar(find, field.least_similar, field.scale, field.may_equal, own_keys)
    if not field.may_equal:
        twins = pc.binary_join_element_wise(pa.scalar(TWIN), levels, "")
        levels = pa.concat_arrays([levels, twins])
    return CodedField(field.name, column.codes, levels, np.zeros(len(levels)), field.a, b, similar)


def together(*found: Pairs) -> Pairs:
    """All pairs of several kinds."""
    one, two, similarity = zip(*found, strict=True)
    return np.concatenate(one), np.concatenate(two), np.concatenate(similarity)


def slips(values: Sequence[str]) -> Pairs:
    """Pairs of values that differ by one digit, or by two that changed places."""
    one, two, similarity = find_similar(values, "damerau", 0.5)
    length = np.array([len(value) for value in values], np.int64)
    edits = np.rint((1.0 - similarity) * np.maximum(length[one], length[two]))
    kept = edits <= 1
    return one[kept], two[kept], np.where(edits[kept] == 0, 1.0, SLIP)


def close_numbers(values: Sequence[str], within: float) -> Pairs:
    """Pairs of numbers at most so far apart: from nearly 1 to SLIP."""
    number = np.array([as_number(value) for value in values])
    known = np.flatnonzero(np.isfinite(number))
    order = known[np.argsort(number[known], kind="stable")]
    ordered = number[order]
    last = np.searchsorted(ordered, ordered + within, side="right")
    counts = last - np.arange(len(order)) - 1
    one = np.repeat(np.arange(len(order)), counts)
    two = one + 1 + np.arange(len(one)) - np.repeat(np.cumsum(counts) - counts, counts)
    apart = (ordered[two] - ordered[one]) / (within or 1.0)
    return order[one], order[two], 1.0 - (1.0 - SLIP) * apart


def as_number(value: str) -> float:
    """The number that a text shows, or nan; a comma may stand before its decimals.

    >>> as_number("1.5"), as_number("1,5"), as_number("1,234,567")
    (1.5, 1.5, nan)
    """
    try:
        return float(value.replace(",", ".") if value.count(",") == 1 else value)
    except ValueError:
        return math.nan


def read_dates(values: Sequence[str], form: str | None) -> list[datetime.date | None]:
    """The date that each text shows, or None; in one format, the one given or the best."""
    forms = (form,) if form else DATE_FORMATS
    return max(
        ([as_date(value, each) for value in values] for each in forms),
        key=lambda dates: sum(date is not None for date in dates),
    )


def as_date(value: str, form: str) -> datetime.date | None:
    """The date that a text shows in a format, or None."""
    if form == COMPACT and len(value) != 8:
        return None  # Python reads one digit as a month, too
    try:
        return datetime.datetime.strptime(value, form).date()
    except ValueError:
        return None


def close_dates(dates: Sequence[datetime.date | None], within: int) -> Pairs:
    """Pairs of dates some days or a year apart, or with day and month exchanged."""
    place: dict[datetime.date, list[int]] = {}
    for i, date in enumerate(dates):
        if date is not None:
            place.setdefault(date, []).append(i)
    one: list[int] = []
    two: list[int] = []
    for date, levels in place.items():
        for near in near_dates(date, within):
            for i in levels:
                one += [i] * len(place.get(near, ()))
                two += place.get(near, ())
    pairs = np.array(one, np.int64), np.array(two, np.int64)
    return *pairs, np.full(len(one), SLIP)


def near_dates(date: datetime.date, within: int) -> list[datetime.date]:
    """The dates that count as near one."""
    found = []
    for days in range(1, within + 1):
        for sign in (-days, days):
            try:
                found.append(date + datetime.timedelta(days=sign))
            except OverflowError:
                continue
    moved = [(date.year - 1, date.month, date.day), (date.year + 1, date.month, date.day)]
    for year, month, day in [*moved, (date.year, date.day, date.month)]:
        try:
            found.append(datetime.date(year, month, day))
        except ValueError:
            continue
    return [near for near in found if near != date]
