"""A model without its records: what the driver needs, counted by tasks over the parts."""

from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from smered.layout import Int64s
from smered.model import Model, as_fields
from smered.pairs import SAMPLE, Pattern
from smered.records import Records
from smered.store.describe import rebuild_model
from smered.store.folder import RunFolder
from smered.store.records import as_records, read_part

__all__ = ["Counts", "count_parts", "find_patterns", "outline_of", "over_records"]


class Counts(NamedTuple):
    """What a task counts in some parts."""

    columns: dict[str, Int64s]  # of each column: records by file and level (k, levels)
    files: Int64s  # (k,)
    blocks: Int64s  # (blocks,)


def count_parts(path: str, parts: tuple[int, int]) -> Counts:
    """Count files, levels and blocks, one part at a time."""
    content = RunFolder.open(Path(path)).content
    total: Counts | None = None
    for part in range(*parts):
        records = as_records(Path(path), content, read_part(Path(path), content, part))
        found = count_records(records)
        if total is None:
            total = found
        else:
            columns = {name: total.columns[name] + more for name, more in found.columns.items()}
            blocks = np.concatenate((total.blocks, found.blocks))
            total = Counts(columns, total.files + found.files, blocks)
    assert total is not None
    return total


def count_records(records: Records) -> Counts:
    """Count files, levels and blocks."""
    files = len(records.files)
    columns = {}
    for name, column in records.columns.items():
        levels, shown = len(column.levels), column.codes >= 0
        key = records.file[shown].astype(np.int64) * levels + column.codes[shown]
        columns[name] = np.bincount(key, minlength=files * levels).reshape(files, levels)
    blocks = np.bincount(records.block - records.block[0])
    return Counts(columns, np.bincount(records.file, minlength=files), blocks)


def outline_of(run: RunFolder, counts: list[Counts]) -> Model:
    """The model of a run with everything but its records."""
    none = as_records(run.path, run.content, read_part(run.path, run.content, 0).slice(0, 0))
    model = rebuild_model(run.content.model, none)
    observed = []
    for field, part in zip(as_fields(model.fields), model.coded, strict=True):
        by_file = np.sum([one.columns[field.columns[0]] for one in counts], axis=0)
        shown = np.zeros(len(part.mu), np.int64)
        shown[: by_file.shape[1]] = by_file.sum(axis=0)
        vars(part)["shown"] = shown
        observed.append(by_file.sum(axis=1))
        if part.similar is not None:
            _ = part.near, part.keys  # found once, for all workers
    by_row = np.stack(observed, axis=1)
    blocks = np.concatenate([one.blocks for one in counts])
    vars(model).update(
        block_sizes=blocks,
        size=int(blocks.sum()),
        largest_cluster=int(blocks.max()),
        file_sizes=np.sum([one.files for one in counts], axis=0),
        observed=by_row if model.distortion == "file" else by_row.sum(axis=0)[None],
    )
    _ = model.partition_prior, model.shown, model.near_tables, model.learned, model.mixed
    _ = model.single, model.close, model.exact
    return model


def over_records(outline: Model, records: Records) -> Model:
    """The model over some records, with what was counted over all of them."""
    fields = zip(as_fields(outline.fields), outline.coded, strict=True)
    coded = [part.over(records.columns[field.columns[0]].codes) for field, part in fields]
    return outline.over(records, coded)


def find_patterns(run: RunFolder, outline: Model) -> list[Pattern]:
    """What candidates agree on, found in the first records."""
    tables: list[pa.Table] = []
    for part in range(len(run.content.parts) - 1):
        if run.content.parts[part] >= SAMPLE:
            break
        tables.append(read_part(run.path, run.content, part))
    records = as_records(run.path, run.content, pa.concat_tables(tables).slice(0, SAMPLE))
    model = over_records(outline, records)
    return model.pairs.patterns(model.arrange())
