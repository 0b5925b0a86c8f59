"""The summary of a run: the numbers that people quote, as JSON and as text."""

from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

import smered
from smered.posterior import Posterior
from smered.posterior.convergence import verdict
from smered.posterior.estimate import Estimate
from smered.posterior.traces import Summary, summarise

__all__ = ["print_summary", "summarise_run"]


def numbers(found: Summary) -> dict[str, float]:
    """A posterior as numbers that JSON holds."""
    return {"mean": found.mean, "sd": found.sd, "lower": found.lower, "upper": found.upper}


def summarise_run(posterior: Posterior, estimate: Estimate) -> dict[str, Any]:
    """Everything that the summary tells; `lower` and `upper` bound the central 95% interval."""
    records, diagnostics = posterior.records, posterior.diagnostics()
    by_file = posterior.model.rate_rows > 1
    return {
        "smered": smered.__version__,
        "records": len(records),
        "files": {file: int((records.file == i).sum()) for i, file in enumerate(records.files)},
        "chains": posterior.chains,
        "draws": posterior.draws,
        "draws_asked": posterior.run.settings.draws,
        "entities": numbers(posterior.entities()),
        "overlap": [
            {"files": list(pattern)} | numbers(count)
            for pattern, count in sorted(posterior.overlap().items(), key=lambda each: len(each[0]))
        ],
        "cluster_sizes": [
            {"records": size} | numbers(count) for size, count in posterior.cluster_sizes().items()
        ],
        "distortion": [
            {"field": part.name, "file": file}
            | numbers(summarise(posterior.beta[:, :, row, column]))
            for row, file in enumerate(records.files if by_file else [None])
            for column, part in enumerate(posterior.model.coded)
            if not part.exact
        ],
        "changes": [
            {"field": field, "step": step} | numbers(rate)
            for field in posterior.changing
            for step, rate in posterior.changes(field).items()
        ],
        "hyperparameters": {
            name: numbers(summarise(draws)) for name, draws in posterior.hyperparameters.items()
        },
        "estimate": {
            "loss": estimate.loss,
            "entities": len(estimate),
            "linked_records": int((estimate.sizes[estimate.entity] > 1).sum()),
            "certain_entities": int((estimate.probability >= 0.95).sum()),
        },
        "diagnostics": {
            "sentence": diagnostics.sentence,
            "warnings": list(diagnostics.warnings),
            "acceptance": diagnostics.acceptance,
            "pair_disagreement": diagnostics.pair_disagreement,
            "table": finite(
                [
                    row | {"verdict": verdict(row, posterior.chains)}
                    for row in diagnostics.table.to_pylist()
                ]
            ),
        },
    }


def finite(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows with null for numbers that JSON does not know."""
    return [
        {k: None if isinstance(v, float) and v - v != 0 else v for k, v in row.items()}
        for row in rows
    ]


def print_summary(summary: dict[str, Any], console: Console) -> None:
    """Show a summary."""
    found = summary["entities"]
    console.print(
        f"[bold]Entities: {found['mean']:,.1f}[/bold] (95% interval {found['lower']:,.0f} to "
        f"{found['upper']:,.0f}) in {summary['records']:,} records"
    )
    many = len(summary["files"]) > 1
    if many:
        show(console, "Entities by the files that hold them", "files", [
            (" + ".join(row["files"]), row, ",.1f") for row in summary["overlap"]
        ])  # fmt: skip
    show(console, "Entities by their number of records", "records", [
        (str(row["records"]), row, ",.1f") for row in summary["cluster_sizes"]
    ])  # fmt: skip
    show(console, "Distortion rates", "field", [
        (row["field"] + (f" in {row['file']}" if row["file"] else ""), row, ".4f")
        for row in summary["distortion"]
    ])  # fmt: skip
    show(console, "True values that changed", "field", [
        (f"{row['field']}, {row['step']}", row, ".4f") for row in summary.get("changes", ())
    ])  # fmt: skip
    told = {f"in {' + '.join(row['files'])}" for row in summary["overlap"]}  # in a table above
    for name, row in summary["hyperparameters"].items():
        if name in told:
            continue
        console.print(f"{name}: {row['mean']:,.2f} ({row['lower']:,.2f} to {row['upper']:,.2f})")
    asked = summary["draws_asked"]
    if summary["draws"] < asked:
        console.print(
            f"[bold]The run is not finished[/bold]: {summary['draws']:,} of {asked:,} draws of "
            "each chain are done; smered resume goes on"
        )
    estimate = summary["estimate"]
    console.print(
        f"Estimate: {estimate['entities']:,} entities, {estimate['linked_records']:,} records "
        f"linked; {estimate['certain_entities']:,} entities are at least 95% certain"
    )
    console.print(escape(summary["diagnostics"]["sentence"]))


def show(
    console: Console, title: str, what: str, rows: list[tuple[str, dict[str, Any], str]]
) -> None:
    """A table of posteriors."""
    if not rows:
        return
    console.print(f"\n{title}:")
    table = Table(what, "mean", "95% interval")
    for column in table.columns[1:]:
        column.justify = "right"
    for name, row, style in rows:
        whole = style if style != ",.1f" else ",.0f"
        table.add_row(escape(name), f"{row['mean']:{style}}",
                      f"{row['lower']:{whole}} to {row['upper']:{whole}}")  # fmt: skip
    console.print(table)
