"""Linked data sets: the records of each entity brought together, as one draw has them."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, overload

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from smered.errors import ConfigError
from smered.layout import Floats, Int32s, Int64s
from smered.model import as_fields
from smered.posterior.canonical import best_levels, free_name
from smered.posterior.estimate import Estimate
from smered.records import Records, as_text, mask_markers, stack_inputs
from smered.suggest import suggest

if TYPE_CHECKING:
    from smered.model import Model
    from smered.posterior.draw import DrawView
    from smered.posterior.posterior import Posterior

__all__ = [
    "MATCH",
    "Imputations",
    "Layout",
    "LinkedTables",
    "readable",
    "record_names",
    "true_levels",
]

Layout = Literal["wide", "long"]
MATCH = "match_probability"  # a column of wide data sets
CANONICAL_DRAWS = 50  # of each chain, over which the probabilities of true values are averaged
WHOLE = r"^(0|-?[1-9][0-9]{0,17})$"  # a leading zero tells of a code, not of a number
DECIMAL = r"^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$"


class Source(NamedTuple):
    """Where a column of a linked data set comes from."""

    kind: Literal["entity", "match", "size", "true", "block", "file", "stacked"]
    number: int = 0  # of the field, or of the file
    values: Any = None  # Arrow array by level, by row of the file, or by record


class LinkedTables:
    """Makes linked data sets; what is the same in every draw is prepared once.

    `wide`: a row for each entity, the columns of the files beside each other. `long`: a row for
    each record, the columns of the files one under the other. In both, fields have the entity's
    true values.
    """

    def __init__(
        self, posterior: "Posterior", layout: Layout, columns: Sequence[str] | None
    ) -> None:
        if layout not in ("wide", "long"):
            raise ConfigError(f"layout = {layout!r} must be 'wide' or 'long'")
        model, records = posterior.model, posterior.records
        self._posterior = posterior
        self._start = np.searchsorted(records.file, np.arange(len(records.files) + 1))
        self._wide = layout == "wide"
        self._sources = wide_sources(model) if self._wide else long_sources(model)
        if columns is not None:
            for name in columns:
                if name not in self._sources:
                    raise ConfigError(
                        f"the linked data have no column {name!r}; "
                        f"{suggest(name, list(self._sources))}"
                    )
            self._sources = {name: self._sources[name] for name in columns}
        # true values come from the records of all files
        self._files = list(range(len(records.files)))
        if MATCH in self._sources:
            nobody = np.zeros(0, np.int64)
            posterior.pair_probabilities(nobody, nobody)  # prepared before several threads ask
        if columns is not None and not self.needs_true_values:
            self._files = sorted({s.number for s in self._sources.values() if s.kind == "file"})

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return list(self._sources)

    @property
    def fixed(self) -> list[str]:
        """The columns that are the same in every draw."""
        return [name for name, source in self._sources.items() if source.kind == "stacked"]

    @property
    def needs_true_values(self) -> bool:
        """Whether any column depends on true values."""
        return any(source.kind == "true" for source in self._sources.values())

    def of(self, view: "DrawView") -> pa.Table:
        """The linked data set of a draw."""
        return self.make(view.linkage, view.true_values if self.needs_true_values else None)

    def make(self, linkage: Int64s, true: Int32s | Int64s | None) -> pa.Table:
        """The linked data set of a linkage, with the level of each record's true values (n, p)."""
        first = np.flatnonzero(linkage == np.arange(len(linkage)))  # of each entity
        number = np.searchsorted(first, linkage)
        rows = first if self._wide else linkage
        held: dict[int, tuple[Int64s, Int64s]] = {}

        def column(source: Source) -> pa.Array:
            if source.kind == "stacked":
                return source.values
            if source.kind in ("entity", "block"):
                return source.values.take(pa.array(rows))
            if source.kind == "true":
                assert true is not None
                level = true[rows, source.number]
                return source.values.take(pa.array(level, mask=level < 0))
            if source.kind == "match":
                held_in = [row_in(file)[1] for file in self._files]
                return pa.array(self._match(held_in, len(first)))
            count, row = row_in(source.number)
            if source.kind == "size":
                return pa.array(count)
            return source.values.take(pa.array(row, mask=row < 0))

        def row_in(file: int) -> tuple[Int64s, Int64s]:
            if file not in held:
                held[file] = self._held(file, number, len(first))
            return held[file]

        return pa.table({name: column(source) for name, source in self._sources.items()})

    def _held(self, file: int, number: Int64s, entities: int) -> tuple[Int64s, Int64s]:
        """How many records of a file each entity has, and the row of the first of them or -1."""
        a, b = self._start[file], self._start[file + 1]
        own = number[a:b]
        row = np.full(entities, -1)
        row[own[::-1]] = np.arange(b - a)[::-1]  # the first is written last
        return np.bincount(own, minlength=entities), row

    def _match(self, rows: Sequence[Int64s], entities: int) -> Floats:
        """The least match probability of two records in each row of the data set."""
        least = np.ones(entities)
        for (one, a), (two, b) in combinations(zip(self._files, rows, strict=True), 2):
            both = np.flatnonzero((a >= 0) & (b >= 0))
            pairs = self._start[one] + a[both], self._start[two] + b[both]
            least[both] = np.minimum(least[both], self._posterior.pair_probabilities(*pairs))
        return least


def true_levels(posterior: "Posterior", estimate: Estimate) -> Int64s:
    """The most probable true level of each record's entity, as an estimate has it (n, p)."""
    drawn = posterior.field_draws(CANONICAL_DRAWS)
    levels = [
        best_levels(estimate, column, posterior.model, draws)[0]
        for column, draws in enumerate(drawn)
    ]
    return np.stack(levels, axis=1)[estimate.entity]


def true_columns(model: "Model") -> dict[str, Source]:
    """The columns that fields read, by level of the field; null where no record shows the level."""
    found: dict[str, Source] = {}
    for number, (field, part) in enumerate(zip(as_fields(model.fields), model.coded, strict=True)):
        shown = np.flatnonzero(part.codes >= 0)
        level, first = np.unique(part.codes[shown], return_index=True)
        example = np.full(len(part.levels), -1)  # a record that shows the level
        example[level] = shown[first]
        for name in field.columns:
            column = model.records.columns[name]
            code = np.where(example >= 0, column.codes[example], -1)
            values = readable(column.levels.cast(pa.string()), input_type(name, model.records))
            by_level = values.take(pa.array(code, mask=code < 0))
            found.setdefault(name, Source("true", number, by_level))
    return found


def block_columns(model: "Model", taken: Mapping[str, Source]) -> dict[str, Source]:
    """Columns that define blocks and are no fields: the same in all records of an entity."""
    records = model.records
    return {
        name: Source("block", 0, readable(records.columns[name].values().cast(pa.string()),
                                          input_type(name, records)))
        for name in records.block_columns
        if name not in taken
    }  # fmt: skip


def wide_sources(model: "Model") -> dict[str, Source]:
    """The columns of a wide data set."""
    records = model.records
    many = len(records.files) > 1
    sources = {"entity": Source("entity", 0, record_names(records))}
    if many:
        sources[MATCH] = Source("match")
    for number, file in enumerate(records.files):
        sources[f"records_{file}" if many else "records"] = Source("size", number)
    own = true_columns(model)
    own |= block_columns(model, own)
    add(sources, own)
    start = np.searchsorted(records.file, np.arange(len(records.files) + 1))
    files = {file: other_columns(records, file, own) for file in records.files}
    for number, (file, columns) in enumerate(files.items()):
        ids = records.ids.slice(start[number], start[number + 1] - start[number])
        add(sources, {f"id_{file}" if many else "id": Source("file", number, ids)})
        for name, values in columns.items():
            shared = sum(name in each for each in files.values()) > 1
            add(sources, {f"{name}_{file}" if shared else name: Source("file", number, values)})
    return sources


def long_sources(model: "Model") -> dict[str, Source]:
    """The columns of a long data set."""
    records = model.records
    own = true_columns(model)
    own |= block_columns(model, own)
    sources = {
        "entity": Source("entity", 0, record_names(records)),
        "file": Source("stacked", 0, pa.array(records.files).take(pa.array(records.file))),
        "id": Source("stacked", 0, records.ids),
    }
    add(sources, own)
    stacked = stack_inputs(records) if records.inputs else {}
    add(sources, {
        name: Source("stacked", 0, readable(mask_markers(values, records.reading.missing)))
        for name, values in stacked.items()
        if is_other(name, records, own)
    })  # fmt: skip
    return sources


def add(sources: dict[str, Source], more: Mapping[str, Source]) -> None:
    """Add columns, each under a name that is free."""
    for name, source in more.items():
        sources[free_name(name, set(sources))] = source


def is_other(name: str, records: Records, own: Mapping[str, Source]) -> bool:
    """Whether an input column is neither compared nor names the record or its file."""
    return name not in own and name not in (records.reading.id, records.reading.file_column)


def other_columns(records: Records, file: str, own: Mapping[str, Source]) -> dict[str, pa.Array]:
    """The columns of a file that tell something else about its records."""
    table = records.inputs.get(file)
    return {} if table is None else {
        name: readable(mask_markers(table.column(name), records.reading.missing))
        for name in table.column_names
        if is_other(name, records, own)
    }  # fmt: skip


def record_names(records: Records) -> pa.Array:
    """FILE:ID of every record."""
    files = pa.array(records.files).take(pa.array(records.file))
    return pc.binary_join_element_wise(files, records.ids.cast(pa.string()), ":")


def input_type(name: str, records: Records) -> pa.DataType | None:
    """The type that a column has in all input files, if it is one."""
    tables = [records.inputs[file] for file in records.inputs]
    types = {table.schema.field(name).type for table in tables if name in table.column_names}
    return types.pop() if len(types) == 1 else None


def readable(values: pa.ChunkedArray | pa.Array, kind: pa.DataType | None = None) -> pa.Array:
    """Values as an analysis reads them: text in which all are numbers becomes numbers.

    `kind` is the type that texts were made from. Codes with leading zeros stay text.

    >>> readable(pa.array(["7", None, "12"])).to_pylist(), readable(pa.array(["07"])).to_pylist()
    ([7, None, 12], ['07'])
    """
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    if pa.types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    if not pa.types.is_string(values.type):
        return values
    if kind is not None and not pa.types.is_string(kind):
        try:
            return values.cast(kind)
        except pa.ArrowException:
            pass  # a marker of missing values made other text of some
    if values.null_count < len(values):
        for pattern, number in ((WHOLE, pa.int64()), (DECIMAL, pa.float64())):
            if pc.all(pc.match_substring_regex(values, pattern)).as_py():
                return values.cast(number)
    return as_text(values)


class Imputations(Sequence[pa.Table]):
    """Several linked data sets, each made when it is asked for."""

    def __init__(
        self, posterior: "Posterior", spots: Sequence[tuple[int, int]], tables: LinkedTables
    ) -> None:
        self._posterior, self._tables = posterior, tables
        self.spots = tuple(spots)  # chain and draw of each

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return self._tables.columns

    @property
    def fixed(self) -> list[str]:
        """The columns that are the same in every data set."""
        return self._tables.fixed

    def __len__(self) -> int:
        return len(self.spots)

    @overload
    def __getitem__(self, item: int) -> pa.Table: ...

    @overload
    def __getitem__(self, item: slice) -> "Imputations": ...

    def __getitem__(self, item: int | slice) -> "pa.Table | Imputations":
        if isinstance(item, slice):
            return Imputations(self._posterior, self.spots[item], self._tables)
        return self._tables.of(self._posterior.at(*self.spots[item]))

    def __iter__(self) -> Iterator[pa.Table]:
        return map(self._tables.of, self._posterior.views(self.spots))
