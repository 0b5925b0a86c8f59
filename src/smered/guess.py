"""A first link.toml from a look at the data: what it guesses, and why."""

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from smered.config import Configuration, FieldTable
from smered.config.schema import FieldType, PriorTable, SamplingTable
from smered.dependence import find_groups, follows, partly_dependent, slipping_share
from smered.fields.near import as_number, read_dates
from smered.layout import Int32s
from smered.records import as_text, number_rows, ordinary, plain
from smered.similar import find_similar
from smered.sources import Source, to_folder
from smered.sources.places import is_address, parse_address

__all__ = ["guess"]

ID_NAME = re.compile(r"^(.*[_ .-])?([a-z]{0,6}id|ids|nr|no|number|key)$", re.IGNORECASE)
TRUTH_NAME = re.compile(
    r"^(ent(ity)?_?id|entity|truth|true_?id|cluster(_?id)?|gold(_?id)?)$", re.IGNORECASE
)
FILE_NAME = re.compile(r"^(source|file|list|origin|dataset|data_?set|wave)$", re.IGNORECASE)
STABLE_NAME = re.compile(
    r"(sex|gender|year|birth|yob|region|reg$|state|province|county|country)", re.IGNORECASE
)
MARKERS = {"na", "n/a", "nan", "null", "none", "nil", ".", "-", "--", "?", "unknown", "missing"}
MARKERS |= {"not known", "unk", "#n/a", "-9", "-99", "-999"}
NUMBERS = re.compile(r"\d+")
LEAST_YEAR, LATEST = 1700, 99991231  # of numbers that tell when, as years or dates
FEW_LEVELS = 40  # up to so many values, a column is taken as categories
MOST = 0.9  # of a column's values make its type
COMMON = 100  # records to a number, from which numbers are taken as categories
MOST_DIGITS = 5  # longer numbers are read like texts: telephone numbers, ids
NEARLY = 0.8  # as similar as words that are misspelt
MISSPELT = 0.02  # of different texts are similar to another: then they are worth comparing
MOST_LOOKED_AT = 20_000  # of them
MOST_FILES = 50  # a column with more values says hardly which file a row came from
WRONG_APART = 0.01  # of records: then parts of a joint field slip one by one
MANY_DRAWS = 2000
MANY_RECORDS = 20_000  # below, blocks save little
MOST_PARTNERS = 2_000  # records that an average record shares its block with


@dataclass(frozen=True)
class Profile:
    """What one column looks like over all files."""

    name: str
    codes: Int32s  # -1 where missing
    values: list[str]
    everywhere: bool  # whether every file has the column

    @property
    def complete(self) -> bool:
        """Whether no value is missing."""
        return self.everywhere and bool((self.codes >= 0).all())

    @property
    def present(self) -> int:
        """Records that have a value."""
        return int((self.codes >= 0).sum())

    @property
    def levels(self) -> int:
        """Different values."""
        return len(self.values)


def profile(name: str, tables: Mapping[str, pa.Table], missing: list[str]) -> Profile:
    """Look at one column."""
    parts = []
    for table in tables.values():
        if name in table.column_names:
            parts += as_text(plain(ordinary(table.column(name)))).chunks
        else:
            parts.append(pa.nulls(len(table), pa.string()))
    column = pa.chunked_array(parts, pa.string()).combine_chunks()
    marked = pc.is_in(column, value_set=pa.array(missing, pa.string()))
    encoded = pc.if_else(marked, pa.scalar(None, pa.string()), column).dictionary_encode()
    codes = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int32)
    everywhere = all(name in table.column_names for table in tables.values())
    return Profile(name, codes, encoded.dictionary.to_pylist(), everywhere)


def guess(
    given: Configuration, sources: Mapping[str, Source], folder: Path
) -> tuple[Configuration, dict[str, str]]:
    """Fill in what was not given; return a reason for each thing guessed, by its key."""
    tables = {name: source.table for name, source in sources.items()}
    names = list(dict.fromkeys(c for table in tables.values() for c in table.column_names))
    data, reasons = given.data.model_dump(), dict[str, str]()
    columns = {name: profile(name, tables, data["missing"]) for name in names}
    if not data["missing"]:
        found = find_markers(columns.values())
        if found:
            data["missing"] = found
            reasons["missing"] = f"{', '.join(map(repr, found))} look like no value at all"
            columns = {name: profile(name, tables, found) for name in names}
    taken = {data["id"], data["file_column"], data["truth"], *data["ignore"]}
    free = [column for name, column in columns.items() if name not in taken]
    if data["truth"] is None:
        truth = next((c for c in free if TRUTH_NAME.match(c.name) and c.levels > 1), None)
        if truth is not None:
            data["truth"] = truth.name
            reasons["truth"] = f"{truth.name!r} by its name; kept to evaluate"
            free.remove(truth)
    if data["file_column"] is None and len(tables) == 1:
        source = next((c for c in free if FILE_NAME.match(c.name) and c.complete
                       and 1 < c.levels <= MOST_FILES), None)  # fmt: skip
        if source is not None:
            data["file_column"] = source.name
            reasons["file_column"] = f"{source.name!r} by its name and its {source.levels} values"
            free.remove(source)
    if data["id"] is None:
        sizes = [len(table) for table in tables.values()]
        group = np.repeat(np.arange(len(sizes), dtype=np.int32), sizes)
        if data["file_column"] in columns:
            group = columns[data["file_column"]].codes
        id_column = find_id(free, group)
        if id_column is not None:
            data["id"] = id_column.name
            reasons["id"] = f"{id_column.name!r} is different in every row of a file"
            free.remove(id_column)
        else:
            reasons["id"] = "no column is different in every row; rows are numbered"
            for column in [c for c in free if is_nearly_id(c)]:
                data["ignore"] = [*data["ignore"], column.name]
                reasons[f"ignore.{column.name}"] = repeated_id(column, group)
                free.remove(column)
    fields = {name: table.model_dump() for name, table in given.fields.items()}
    if not fields:
        for column in sorted(free, key=lambda c: -c.levels):  # what determines others comes first
            why = useless(column) or determined(column, [columns[name] for name in fields])
            if why:
                data["ignore"] = [*data["ignore"], column.name]
                reasons[f"ignore.{column.name}"] = f"{column.name!r} {why}"
            else:
                kind, why = guess_type(column)
                fields[column.name] = FieldTable(type=kind).model_dump()
                reasons[f"fields.{column.name}"] = f"{kind}, {why}; {missing_share(column)}"
        fields = {name: fields[name] for name in names if name in fields}
    files = list(tables) if data["file_column"] is None else columns[data["file_column"]].values
    if not data["time_order"] and len(files) > 1:
        data["time_order"] = order_in_time(files)
        if data["time_order"]:
            reasons["time_order"] = "by the numbers in the names of the files"
    groups = [] if given.fields else join_columns(fields, columns, data, reasons)
    if not data["blocks"]:
        joined = {name for members in groups for name in members}
        compared = [columns[name] for name in fields if name in columns and name not in joined]
        data["blocks"], reasons["blocks"] = find_blocks(compared)
    if not given.fields:
        for name in data["blocks"]:
            if name in fields and len(fields) > 1:
                del fields[name]
                data["ignore"] = [*data["ignore"], name]
                reasons[f"ignore.{name}"] = f"{name!r} makes blocks, within which it always agrees"
                reasons.pop(f"fields.{name}")
    model = given.model.model_dump()
    if not given.fields and model["prior"] == PriorTable().model_dump():
        categories = {
            name: columns[name].codes
            for name, table in fields.items() if table["type"] == "categorical"
        }  # fmt: skip
        pairs = partly_dependent(categories)
        if pairs:
            model["prior"] |= {"files": False, "blocks": False}
            most = " and ".join(repr(name) for name in pairs[0][:2])
            reasons["prior"] = (
                f"columns go together in part, {most} most: {pairs[0].sentence}. Agreement says "
                "less than it seems, and a prior that learns from it would link too many, so "
                "that one is left out (files, blocks = false)"
            )
    sampling = given.sampling.model_dump()
    cheap = all(is_cheap(table) for table in fields.values())
    if cheap and sampling == SamplingTable().model_dump():
        sampling["draws"] = MANY_DRAWS
        reasons["sampling"] = "fields of categories: draws are cheap, and look-alikes need many"
    data["files"] = [to_folder(place, folder) for place in data["files"]]
    if any(parse_address(place).secrets for place in given.data.files if is_address(place)):
        reasons["files"] = "the password is left out; give it in PGPASSWORD or ~/.pgpass"
    content = given.model_dump() | {
        "data": data,
        "fields": fields,
        "model": model,
        "sampling": sampling,
    }
    return Configuration.model_validate(content), reasons


def order_in_time(files: list[str]) -> list[str]:
    """Files in the order of the one number or date that tells their names apart, if there is one.

    >>> order_in_time(["survey_1989.csv", "survey_1982.csv"])
    ['survey_1982.csv', 'survey_1989.csv']
    >>> order_in_time(["clinic", "register"])
    []
    """
    numbers = [NUMBERS.findall(file) for file in files]
    stems = {NUMBERS.sub("#", file) for file in files}
    if len(stems) != 1 or not all(numbers):
        return []
    values = [tuple(int(number) for number in found) for found in numbers]
    varying = sum(len(set(column)) > 1 for column in zip(*values, strict=True))
    if (
        len(set(values)) < len(files)
        or varying != 1
        or not any(LEAST_YEAR <= number <= LATEST for number in values[0])
    ):
        return []
    return [file for _, file in sorted(zip(values, files, strict=True))]


def join_columns(
    fields: dict[str, Any],
    columns: Mapping[str, Profile],
    data: dict[str, Any],
    reasons: dict[str, str],
) -> list[tuple[str, ...]]:
    """Read columns that change together as one field; return the groups."""
    categories = {
        name: columns[name].codes
        for name, table in fields.items()
        if table["type"] == "categorical" and name not in data["blocks"]
        and columns[name].levels > 2  # columns of two values agree too often to tell
    }  # fmt: skip
    groups = find_groups(categories)
    for members, pair in groups:
        for name in members:
            del fields[name]
            reasons.pop(f"fields.{name}", None)
        label = " | ".join(members)
        changes = bool(data["time_order"])
        slips = slipping_share([columns[name].codes for name in members])
        wrong_apart = slips >= WRONG_APART
        table = FieldTable(
            type="joint", columns=list(members), changes=changes or None,
            slips=wrong_apart or None,
        )  # fmt: skip
        fields[label] = table.model_dump()
        reasons[f"fields.{label}"] = (
            f"joint, for {pair.sentence}: they are one thing, which counts once"
            + ("; it may be another in a later file" if changes else "")
            + (f"; {slips:.0%} are wrong in a part, as it seems" if wrong_apart else "")
        )
    return [members for members, _ in groups]


def is_cheap(table: Mapping[str, Any]) -> bool:
    """Whether values of a field only agree or differ."""
    plain_joint = table["type"] == "joint" and not table["types"] and not table["slips"]
    return table["type"] in ("categorical", "exact") or plain_joint


def find_markers(columns: Any) -> list[str]:
    """Values that look like a mark for no value."""
    return sorted({v for column in columns for v in column.values if v.strip().lower() in MARKERS})


def find_id(columns: list[Profile], file: Int32s) -> Profile | None:
    """The column, called like an id, that tells the rows of a file apart."""
    for column in columns:
        if ID_NAME.match(column.name) and column.complete:
            pairs = number_rows([column.codes, file], len(file))
            if len(np.unique(pairs)) == len(file):
                return column
    return None


def is_nearly_id(column: Profile) -> bool:
    """Whether a column is called like an id and nearly is one."""
    return bool(ID_NAME.match(column.name)) and column.levels > MOST * len(column.codes)


def repeated_id(column: Profile, file: Int32s) -> str:
    """Why a column that is called like an id is none."""
    said = f"{column.name!r} is called like an id"
    gaps = np.flatnonzero(column.codes < 0)
    if len(gaps):
        return f"{said}, and row {gaps[0] + 1} has none: fill it to use it"
    pairs = number_rows([column.codes, file], len(file))
    order = np.argsort(pairs, kind="stable")
    again = np.flatnonzero(np.diff(pairs[order]) == 0)
    one, two = order[again[0]], order[again[0] + 1]
    value = column.values[column.codes[one]]
    return f"{said}, and rows {one + 1} and {two + 1} both have {value!r}: mend it to use it"


def useless(column: Profile) -> str:
    """Why a column cannot be compared, if it cannot."""
    if not column.everywhere:
        return "is not in every file"
    if column.present == 0:
        return "has no values"
    if column.levels == 1:
        return "has the same value everywhere"
    if column.levels == column.present and not is_misspelt(column):
        return "has a different value in every record"
    return ""


def is_misspelt(column: Profile) -> bool:
    """Whether a column of different values is one of words, some of which are nearly the same."""
    values = column.values[:MOST_LOOKED_AT]
    letters = sum(letter.isalpha() for value in values for letter in value)
    if 2 * letters < sum(map(len, values)):
        return False
    one, two, _ = find_similar(values, "damerau", NEARLY)
    return len(np.union1d(one, two)) > MISSPELT * len(values)


def determined(column: Profile, others: Iterable[Profile]) -> str:
    """Why a column tells nothing more than another, if it does not."""
    for other in others:
        if follows(column.codes, other.codes):
            return f"follows from {other.name!r}: comparing both would count the same thing twice"
    return ""


def guess_type(column: Profile) -> tuple[FieldType, str]:
    """The type of a field, and why."""
    values = f"{column.levels:,} values"
    if column.levels <= FEW_LEVELS:
        return "categorical", f"{values} that agree or differ"
    dates = read_dates(column.values, None)
    if sum(date is not None and 1800 <= date.year <= 2100 for date in dates) > MOST * len(dates):
        return "date", values
    numbers = [value for value in column.values if not math.isnan(as_number(value))]
    if len(numbers) > MOST * column.levels and np.median([len(v) for v in numbers]) <= MOST_DIGITS:
        if column.present > COMMON * column.levels:
            return "categorical", f"{values}, each in so many records that near ones say little"
        return "number", f"{values}; near numbers and one wrong digit count as small errors"
    return "text", f"{values}; a misspelt value is still near the right one"


def missing_share(column: Profile) -> str:
    """How much of a column is missing."""
    return f"{1 - column.present / len(column.codes):.1%} missing"


def find_blocks(columns: list[Profile]) -> tuple[list[str], str]:
    """One or two complete columns, known to be stable, that make blocks small enough."""
    n = len(columns[0].codes) if columns else 0
    if n < MANY_RECORDS:
        return [], "none needed for so few records, and none means no link is ruled out"
    stable = [column for column in columns if STABLE_NAME.search(column.name)]
    usable = [column for column in stable if column.complete and column.levels <= n / 50]

    def partners(chosen: tuple[Profile, ...]) -> float:
        sizes = np.bincount(number_rows([c.codes for c in chosen], n)).astype(float)
        return float((sizes**2).sum() / n)

    for number in (1, 2):
        found = [(partners(chosen), chosen) for chosen in combinations(usable, number)]
        small = [each for each in found if each[0] <= MOST_PARTNERS]
        if small:
            most, chosen = max(small, key=lambda each: each[0])  # rule out as little as possible
            names = [column.name for column in chosen]
            return names, (
                f"{', '.join(names)}: complete, and probably without errors; a record "
                f"shares its block with {most:,.0f} others on average. Records that differ here "
                "are never linked: take a column out if it may be wrong"
            )
    return [], "no complete columns make small blocks; without any, no link is ruled out"
