"""A model without its records: what the driver needs, counted by tasks over the parts."""

import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from smered.errors import DataWarning
from smered.fields import CodedField, Field
from smered.layout import Bools, Int32s, Int64s
from smered.model import Model, as_fields
from smered.pairs import SAMPLE, Pattern
from smered.records import Column, Records, number_rows
from smered.store.describe import rebuild_model
from smered.store.folder import RunFolder
from smered.store.records import as_records, read_part

__all__ = ["Counts", "Outline", "add_counts", "count_part", "count_records", "find_patterns"]
__all__ += ["outline_of", "outline_of_run", "over_records"]


class Values(NamedTuple):
    """The distinct values of a field in a part, as codes of its columns, and how often they are."""

    codes: Int32s  # (values, columns of the field)
    shown: Int64s  # (k, values) records of each file


class Counts(NamedTuple):
    """What a task counts in some records."""

    fields: list[Values]
    files: Int64s  # (k,)


class PartCounts(NamedTuple):
    """What a task counts in a part."""

    counts: Counts
    first_block: int
    blocks: Int64s  # records of each block, from the first one on


class Outline(NamedTuple):
    """A model without its records, and what the codes of its fields stand for."""

    model: Model
    values: list[Int32s]  # of each field: the codes of its columns in each of its values
    levels: list[Int32s]  # of each field: the level of each of these values


def count_part(path: str, part: int) -> PartCounts:
    """Count the records of a part by file, value and block."""
    content = RunFolder.open(Path(path)).content
    records = as_records(Path(path), content, read_part(Path(path), content, part))
    fields = as_fields(rebuild_model(content.model, records).fields)
    first = int(records.block[0])
    return PartCounts(count_records(fields, records), first, np.bincount(records.block - first))


def count_records(fields: Sequence[Field], records: Records) -> Counts:
    """Count records by file and value."""
    return Counts(
        [count_values(field, records) for field in fields],
        np.bincount(records.file, minlength=len(records.files)),
    )


def codes_of(field: Field, records: Records) -> Int32s:
    """The codes of a field's columns (n, columns)."""
    return np.stack([records.columns[name].codes for name in field.columns], axis=1)


def telling(codes: Int32s) -> Bools:
    """Which records have a value in one of the columns."""
    return np.asarray((codes >= 0).any(axis=1), np.bool_)


def count_values(field: Field, records: Records) -> Values:
    """Count the values of a field; a record that lacks all of its columns has none."""
    codes = codes_of(field, records)
    complete = telling(codes)
    codes, file = codes[complete], records.file[complete].astype(np.int64)
    number = number_rows(list(codes.T), len(codes))
    first = np.unique(number, return_index=True)[1]
    files = len(records.files)
    shown = np.bincount(file * len(first) + number, minlength=files * len(first))
    return Values(codes[first], shown.reshape(files, len(first)))


def add_values(parts: list[Values]) -> Values:
    """The values of all parts, in the order of their codes."""
    codes = np.concatenate([part.codes for part in parts])
    number = number_rows(list(codes.T), len(codes))
    first = np.unique(number, return_index=True)[1]
    shown = np.zeros((len(parts[0].shown), len(first)), np.int64)
    start = 0
    for part in parts:
        shown[:, number[start : start + len(part.codes)]] += part.shown
        start += len(part.codes)
    return Values(codes[first], shown)


def add_counts(parts: list[Counts]) -> Counts:
    """The counts of all parts."""
    fields = zip(*(part.fields for part in parts), strict=True)
    files = np.sum([part.files for part in parts], axis=0)
    return Counts([add_values(list(own)) for own in fields], files)


def outline_of_run(run: RunFolder, parts: list[PartCounts]) -> Outline:
    """The model of a run with everything but its records."""
    none = as_records(run.path, run.content, read_part(run.path, run.content, 0).slice(0, 0))
    blocks = np.zeros(max(one.first_block + len(one.blocks) for one in parts), np.int64)
    for one in parts:
        blocks[one.first_block : one.first_block + len(one.blocks)] += one.blocks
    model = rebuild_model(run.content.model, none)
    return outline_of(model, [one.counts for one in parts], blocks)


def outline_of(model: Model, counts: list[Counts], blocks: Int64s) -> Outline:
    """A model over no records, with what was counted over all of them, in blocks of these sizes.

    Fields are coded anew, over a record for each of their values: with the codes of all records.
    """
    none = model.records
    found, files = add_counts(counts)
    alone = [
        code_alone(field, values, none)
        for field, values in zip(as_fields(model.fields), found, strict=True)
    ]
    model = model.over(none, [part for part, _ in alone])
    by_row = np.stack([values.shown.sum(axis=1) for values in found], axis=1)
    vars(model).update(
        block_sizes=blocks,
        size=int(blocks.sum()),
        largest_cluster=int(blocks.max()),
        file_sizes=files,
        observed=by_row if model.distortion == "file" else by_row.sum(axis=0)[None],
    )
    model.check_size()
    _ = model.partition_prior, model.shown, model.near_tables, model.learned, model.mixed
    _ = model.single, model.close, model.exact, model.given, model.changing
    return Outline(model, [values.codes for values in found], [levels for _, levels in alone])


def code_alone(field: Field, values: Values, none: Records) -> tuple[CodedField, Int32s]:
    """A field over no records, with what was counted over all of them; the level of each value."""
    columns = {
        name: Column(name, codes, none.columns[name].levels)
        for name, codes in zip(field.columns, values.codes.T, strict=True)
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)  # every value is there once
        part = field.code(replace(none, file=np.zeros(len(values.codes), np.int32),
                                  columns={**none.columns, **columns}))  # fmt: skip
    levels = part.codes  # of each value
    part = part.over(np.empty(0, np.int32))
    shown = np.zeros(len(part.mu), np.int64)
    known = levels >= 0
    shown[levels[known]] = values.shown.sum(axis=0)[known]
    vars(part)["shown"] = shown
    if part.similar is not None:
        _ = part.near, part.keys  # found once, for all workers
    return part, levels


def over_records(outline: Outline, records: Records) -> Model:
    """The model over some records, with what was counted over all of them."""
    model = outline.model
    fields = zip(as_fields(model.fields), model.coded, outline.values, outline.levels, strict=True)
    coded = [
        part.over(find_codes(field, values, levels, records))
        for field, part, values, levels in fields
    ]
    return model.over(records, coded)


def find_codes(field: Field, values: Int32s, levels: Int32s, records: Records) -> Int32s:
    """The codes of a field for some records: the levels of their values."""
    codes = codes_of(field, records)
    if len(field.columns) == 1:
        return codes[:, 0]
    found = np.full(len(codes), -1, np.int32)
    complete = telling(codes)
    both = np.concatenate((values, codes[complete]))
    found[complete] = levels[number_rows(list(both.T), len(both))[len(values) :]]
    return found


def find_patterns(path: str, outline: Outline) -> list[Pattern]:
    """What candidates agree on, found in the first records."""
    if outline.model.rotates:
        return []
    run = RunFolder.open(Path(path))
    tables: list[pa.Table] = []
    for part in range(len(run.content.parts) - 1):
        if run.content.parts[part] >= SAMPLE:
            break
        tables.append(read_part(run.path, run.content, part))
    records = as_records(run.path, run.content, pa.concat_tables(tables).slice(0, SAMPLE))
    model = over_records(outline, records)
    return model.pairs.patterns(model.arrange())
