"""The tables that a user takes away: linked records, entities, pairs; as CSV and Parquet."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from smered.errors import ConfigError
from smered.posterior import Posterior
from smered.posterior.canonical import free_name
from smered.posterior.estimate import Estimate, estimated_sets
from smered.posterior.linked import record_names
from smered.records import as_text, stack_inputs
from smered.store.disk import write_csv, write_json, write_table
from smered.summary import summarise_run

__all__ = ["FORMATS", "entities_table", "linked_table", "neutralised", "write_outputs"]

FORMATS = ("csv", "parquet")
ALTERNATIVES = 3  # sets named for each record besides its own
ALONE = "alone"
# What a spreadsheet would take for a formula; a plain number is none.
FORMULA = "^[=+\\-@\t\r\uff1d\uff0b\uff0d\uff20]"
NUMBER = r"^[+-]?[0-9]+([.,][0-9]+)?([eE][+-]?[0-9]+)?$"


def write_outputs(
    posterior: Posterior,
    folder: Path,
    *,
    estimate: Estimate,
    formats: Sequence[str] = FORMATS,
    min_probability: float = 0.1,
    raw: bool = False,
) -> list[Path]:
    """Write linked, entities, pairs and summary.json into a folder; return the files.

    `raw` leaves values in CSV files that a spreadsheet would read as formulas.
    """
    for kind in formats:
        if kind not in FORMATS:
            raise ConfigError(f"format {kind!r} must be one of: {', '.join(FORMATS)}")
    if not 0 <= min_probability <= 1:
        raise ConfigError(f"min_probability = {min_probability} must be between 0 and 1")
    tables = {
        "linked": linked_table(posterior, estimate),
        "entities": entities_table(posterior, estimate),
        "pairs": posterior.pairs(min_probability).drop_columns(["record_a", "record_b"]),
    }
    written = []
    for name, table in tables.items():
        for kind in FORMATS:
            path = folder / f"{name}.{kind}"
            if kind not in formats:
                path.unlink(missing_ok=True)  # of an earlier estimate
                continue
            if kind == "csv":
                flat = flattened(table)
                write_csv(path, flat if raw else neutralised(flat))
            else:
                write_table(path, table)
            written.append(path)
    write_json(folder / "summary.json", summarise_run(posterior, estimate))
    return [*written, folder / "summary.json"]


def flattened(table: pa.Table) -> pa.Table:
    """The table with text in place of what CSV cannot hold: lists, structs, bytes, dictionaries."""
    for i, field in enumerate(table.schema):
        if pa.types.is_nested(field.type) or pa.types.is_dictionary(field.type) or is_bytes(field):
            table = table.set_column(i, field.name, as_text(table.column(i)))
    return table


def is_bytes(field: pa.Field) -> bool:
    """Whether a column holds bytes."""
    return pa.types.is_binary(field.type) or pa.types.is_fixed_size_binary(field.type)


def neutralised(table: pa.Table) -> pa.Table:
    """The table with an apostrophe before every text that a spreadsheet would run as a formula."""
    names = pa.array(table.column_names)
    table = table.rename_columns(neutral_text(names).to_pylist())
    for i, name in enumerate(table.column_names):
        if pa.types.is_string(table.column(i).type) or pa.types.is_large_string(
            table.column(i).type
        ):
            table = table.set_column(i, name, neutral_text(table.column(i)))
    return table


def neutral_text(values: pa.Array) -> pa.Array:
    """Texts that begin like a formula and are no number, with an apostrophe before them."""
    risky = pc.and_(
        pc.match_substring_regex(values, FORMULA),
        pc.invert(pc.match_substring_regex(values, NUMBER)),
    )
    return pc.if_else(risky, pc.binary_join_element_wise("'", values, ""), values)


def linked_table(posterior: Posterior, estimate: Estimate) -> pa.Table:
    """Every input record with its entity, how sure that is, and what else it may be.

    `probability` is that of exactly these records being one entity; `alternative_1` the other
    records of the most probable other matching set ("alone" if there are none), and so on.
    """
    records = posterior.records
    columns = dict(
        zip(
            ["file", "id", "entity_id", "probability", "records"],
            estimate.table(records).columns,
            strict=True,
        )
    )
    for number, (names, probability) in enumerate(alternatives(posterior, estimate), 1):
        columns[f"alternative_{number}"] = names
        columns[f"alternative_{number}_probability"] = probability
    inputs = stack_inputs(records)
    for name, values in inputs.items():
        columns[free_name(name, {*columns, *inputs} - {name} | set(columns))] = values
    return pa.table(columns)


def alternatives(posterior: Posterior, estimate: Estimate) -> Iterable[tuple[pa.Array, pa.Array]]:
    """The most probable matching sets of each record besides its estimated one: names, probability.

    One pair of columns for each of the first few alternatives.
    """
    found = posterior.sets
    own = estimated_sets(estimate.entity, found)
    owner = found.sets.owner
    order = np.lexsort((found.rank[owner], found.sets.member))
    order = order[~own[owner[order]]]
    record = found.sets.member[order]
    first = np.concatenate(([0], np.flatnonzero(record[1:] != record[:-1]) + 1))
    place = np.arange(len(record)) - np.repeat(first, np.diff(np.append(first, len(record))))
    names = record_names(posterior.records).to_pylist()
    n, total = len(names), posterior.chains * posterior.draws
    for number in range(ALTERNATIVES):
        chosen = order[place == number] if len(record) else order
        text: list[str | None] = [None] * n
        probability = np.zeros(n)
        for at in chosen.tolist():
            row, who = int(owner[at]), int(found.sets.member[at])
            others = [names[r] for r in found.sets.member_list(row) if r != who]
            text[who] = " + ".join(others) or ALONE
            probability[who] = found.draws[row] / total
        missing = np.array([value is None for value in text])
        yield pa.array(text, pa.string()), pa.array(probability, mask=missing)


def entities_table(posterior: Posterior, estimate: Estimate) -> pa.Table:
    """One row per entity: its members, files, and most probable true values."""
    records = posterior.records
    table = posterior.canonical(estimate)
    names, files = record_names(records).to_pylist(), records.files
    members: list[list[str]] = [[] for _ in range(len(estimate))]
    held: list[dict[str, None]] = [{} for _ in range(len(estimate))]
    for record, entity in enumerate(estimate.entity.tolist()):
        members[entity].append(names[record])
        held[entity][files[records.file[record]]] = None
    at = 3  # after entity_id, probability and records
    table = table.add_column(at, "members", pa.array([" + ".join(m) for m in members]))
    return table.add_column(at, "files", pa.array([", ".join(h) for h in held]))
