"""Commands that ask a finished run: summary, query, report, export, evaluate."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from smered.cli import options as o
from smered.cli.screen import print_json, screen, use_run
from smered.cli.work import Outputs

if TYPE_CHECKING:
    from smered.evaluate import Evaluation
    from smered.posterior import Posterior
    from smered.posterior.estimate import Estimate
    from smered.posterior.linked import Layout

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add these commands to the program."""
    for command in (summary, query, report, export, evaluate):
        app.command()(command)


def summary(run: o.Run, loss: o.Loss = None, json: o.Json = False, quiet: o.Quiet = False) -> None:
    """Show how many entities there are, the overlap of the files, and whether to believe it.

    [bold]Example[/bold]

    smered summary linkage --json
    """
    from smered.posterior import Posterior
    from smered.summary import print_summary, summarise_run

    outputs = Outputs.of(run, loss, None, None, None)
    posterior = Posterior.open(run)
    found = summarise_run(posterior, posterior.estimate(outputs.loss))
    if json:
        print_json(found)
    else:
        print_summary(found, screen(json=False, quiet=quiet))


def query(
    run: o.Run,
    record: Annotated[str, typer.Option("--record", metavar="FILE:ID", help="The record.")],
    top: Annotated[int, typer.Option("--top", min=1, help="Matching sets to show.")] = 5,
    json: o.Json = False,
) -> None:
    """Show who one record may be: its matching sets with their probabilities.

    The records of each set stand side by side; values that differ from the record's are marked
    with an asterisk.

    [bold]Example[/bold]

    smered query linkage --record 1982:10084
    """
    from smered.posterior import Posterior
    from smered.query import find_record, matching_sets, print_matching_sets

    posterior = Posterior.open(use_run(run))
    number = find_record(posterior.records, record)
    found = matching_sets(posterior, number, top)
    if json:
        print_json(found)
    else:
        print_matching_sets(found, screen(json=False, quiet=False))


def report(
    run: o.Run,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", metavar="FILE", help="The page; default: report.html in the run folder."
        ),
    ] = None,
    mask: Annotated[
        bool,
        typer.Option(
            "--mask", help="Leave all field values out, for records that must not travel."
        ),
    ] = False,
    truth: o.TruthOf = None,
    title: Annotated[str | None, typer.Option("--title", help="The page's title.")] = None,
    loss: o.Loss = None,
    quiet: o.Quiet = False,
    force: o.Force = False,
) -> None:
    """Write a report to hand to a colleague: one HTML file that opens offline.

    What was linked, how many entities there are, the overlap of the files, errors in the data,
    every cluster with the evidence for it, diagnostics and provenance; with a truth, an evaluation.

    [bold]Examples[/bold]

    smered report linkage

    smered report linkage --mask --out to-share.html
    """
    from smered.errors import ConfigError
    from smered.posterior import Posterior
    from smered.report.write import write_report

    outputs = Outputs.of(run, loss, None, None, None)
    path = out or run / ("report-masked.html" if mask else "report.html")
    if path.is_dir():
        raise ConfigError(f"{path} is a folder; name a file")
    if out is not None and path.exists() and not force:
        raise ConfigError(f"{path} exists already; --force replaces it")
    posterior = Posterior.open(run)
    estimate = posterior.estimate(outputs.loss)
    write_report(
        posterior,
        path,
        estimate=estimate,
        evaluation=compare(run, posterior, estimate, truth),
        title=title or run.resolve().name,
        mask=mask,
    )
    screen(json=False, quiet=quiet).print(str(path), markup=False)


def export(
    run: o.Run,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="Where to; default: the run folder.")
    ] = None,
    format: o.Formats = None,
    min_probability: o.MinProbability = None,
    loss: o.Loss = None,
    raw_csv: o.RawCsv = None,
    imputations: Annotated[
        int | None,
        typer.Option(
            "--imputations",
            metavar="M",
            help="Write M linked data sets of as many "
            "draws instead, for multiple imputation in R, Stata or Python.",
        ),
    ] = None,
    layout: Annotated[
        str,
        typer.Option(
            "--layout",
            help="Of linked data sets: wide (a row for each entity) or long "
            "(a row for each record).",
        ),
    ] = "wide",
    quiet: o.Quiet = False,
    force: o.Force = False,
) -> None:
    """Write the linked tables of a run again, with another estimate, format or threshold.

    With --imputations, write linked data sets of many draws into one table, imputations.csv and
    .parquet, to analyse each and pool the answers.

    [bold]Examples[/bold]

    smered export linkage --loss vi --format csv --out vi-tables

    smered export linkage --imputations 50 --format parquet --out imputed
    """  # fmt: skip
    from smered.errors import ConfigError
    from smered.posterior import Posterior

    outputs = Outputs.of(run, loss, format, min_probability, raw_csv)
    shape = check_layout(layout)
    if out is not None and out.exists() and not out.is_dir():
        raise ConfigError(f"{out} is a file; choose another folder")
    if out is not None and out.exists() and not force and any(out.iterdir()):
        raise ConfigError(f"{out} exists already and is not empty; --force writes into it")
    posterior = Posterior.open(run)
    if imputations is not None:
        from smered.imputations import write_imputations

        written = write_imputations(
            posterior, out or run, imputations, layout=shape,
            formats=outputs.formats, raw=outputs.raw,
        )  # fmt: skip
    else:
        written = outputs.write(posterior, out or run, posterior.estimate(outputs.loss))
    for path in written:
        screen(json=False, quiet=quiet).print(str(path), markup=False)


def evaluate(
    run: o.Run,
    truth: o.TruthOf = None,
    loss: o.Loss = None,
    figures: o.Figures = None,
    json: o.Json = False,
) -> None:
    """Compare a run with the truth: links, clusters, overlap, calibration.

    [bold]Examples[/bold]

    smered evaluate linkage --truth person

    smered evaluate linkage --truth truth.csv --json --figures figures
    """  # fmt: skip
    from smered.errors import ConfigError
    from smered.evaluate.show import print_evaluation
    from smered.posterior import Posterior

    outputs = Outputs.of(run, loss, None, None, None)
    if figures is not None and figures.exists() and not figures.is_dir():
        raise ConfigError(f"{figures} is a file; choose another folder")
    posterior = Posterior.open(run)
    found = compare(run, posterior, posterior.estimate(outputs.loss), truth)
    if found is None:
        raise ConfigError("the run has no truth column; name one, or a table: --truth COL|FILE")
    if json:
        print_json(found.to_dict())
    else:
        print_evaluation(found, screen(json=False, quiet=False))
    if figures is not None:
        from smered.report.figures import confusion, reliability, save

        save(confusion(found.confusion), figures / "confusion")
        save(reliability(found.reliability), figures / "reliability")


def check_layout(layout: str) -> "Layout":
    """The name of a layout."""
    from smered.errors import ConfigError
    from smered.suggest import suggest

    if layout not in ("wide", "long"):
        raise ConfigError(f"--layout {layout}: {suggest(layout, ['wide', 'long'])}")
    return layout  # type: ignore[return-value]


def compare(
    run: Path, posterior: "Posterior", estimate: "Estimate", truth: str | None
) -> "Evaluation | None":
    """Evaluate against the truth that is named, or that was when linking; nothing without one."""
    from smered import evaluate as evaluation
    from smered.store.folder import RunFolder

    data = RunFolder.open(run).configuration.get("data", {})
    named = truth or data.get("truth")
    if named is None:
        return None
    labels = evaluation.read_truth(
        posterior.records, named, data.get("id"), data.get("missing", ())
    )
    return evaluation.evaluate(posterior, labels, estimate)
