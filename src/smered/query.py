"""One record's matching sets, as the paper tabulates them."""

from typing import Any

import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from smered.errors import DataError
from smered.posterior import Posterior
from smered.records import Records
from smered.suggest import suggest

__all__ = ["find_record", "matching_sets", "print_matching_sets"]


def find_record(records: Records, text: str) -> int:
    """The number of the record written FILE:ID; the file may be left out if there is only one."""
    for file in sorted(records.files, key=len, reverse=True):
        if text.startswith(f"{file}:"):
            return records.position(file, text[len(file) + 1 :])
    if len(records.files) == 1:
        return records.position(records.files[0], text)
    file = text.partition(":")[0]
    raise DataError(f"record {text!r} names no file; write FILE:ID; {suggest(file, records.files)}")


def matching_sets(posterior: Posterior, record: int, top: int) -> dict[str, Any]:
    """The record's most probable matching sets, with the values of their records."""
    records = posterior.records
    ids = records.ids

    def describe(number: int) -> dict[str, Any]:
        values = {
            name: column.levels[int(column.codes[number])].as_py()
            if column.codes[number] >= 0 else None
            for name, column in records.columns.items()
        }  # fmt: skip
        shown = {name: None if value is None else str(value) for name, value in values.items()}
        return {"file": records.files[records.file[number]], "id": ids[number].as_py()} | {
            "values": shown
        }

    found = posterior.matching_sets(record)
    return {
        "record": describe(record),
        "sets": [
            {
                "probability": probability,
                "records": [describe(record)] + [describe(m) for m in members if m != record],
            }
            for members, probability in found[:top]
        ],
        "further_sets": max(len(found) - top, 0),
        "further_probability": float(np.sum([p for _, p in found[top:]])),
    }


def print_matching_sets(found: dict[str, Any], console: Console) -> None:
    """Show each set with its probability and its records side by side."""
    own = found["record"]
    console.print(
        f"[bold]Record {escape(own['id'])} of {escape(own['file'])}[/bold]: its matching sets"
    )
    table = Table("matching set", "probability")
    table.columns[1].justify = "right"
    for row in found["sets"]:
        names = [escape(f"{r['file']}:{r['id']}") for r in row["records"]]
        table.add_row(", ".join(names), f"{row['probability']:.3f}")
    if found["further_sets"]:
        table.add_row(f"({found['further_sets']} more)", f"{found['further_probability']:.3f}")
    console.print(table)
    for row in found["sets"]:
        if len(row["records"]) < 2:
            continue
        side = Table("field", title=f"Probability {row['probability']:.3f}", title_justify="left")
        for record in row["records"]:
            side.add_column(escape(f"{record['file']}:{record['id']}"))
        for field, value in own["values"].items():
            cells = [mark(record["values"][field], value) for record in row["records"]]
            side.add_row(escape(field), *cells)
        console.print(side)


def mark(value: str | None, own: str | None) -> str:
    """A value, marked if it differs from the record's own; a missing one differs from none."""
    if value is None:
        return "[dim]missing[/dim]"
    differs = own is not None and value != own
    return f"[bold red]{escape(value)} *[/bold red]" if differs else escape(value)
