"""Commands that go on with linked data: regress, population."""

from typing import Annotated, Any

import typer

from smered.cli import options as o
from smered.cli.screen import print_json, screen, use_run
from smered.cli.work import Outputs

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add these commands to the program."""
    for command in (regress, population):
        app.command()(command)


def regress(
    run: o.Run,
    formula: Annotated[
        str, typer.Argument(metavar="FORMULA", help='Such as "income ~ age + C(town)".')
    ],
    kind: Annotated[str, typer.Option("--kind", help="linear, logistic or poisson.")] = "linear",
    exposure: Annotated[
        str | None,
        typer.Option("--exposure", metavar="COL", help="Time at risk, of a poisson regression."),
    ] = None,
    min_probability: Annotated[
        float,
        typer.Option("--min-probability", help="Leave out entities whose records match with less."),
    ] = 0.9,
    draws: o.LinkageDraws = 200,
    level: o.Level = 0.95,
    json: o.Json = False,
    quiet: o.Quiet = False,
) -> None:
    """Fit a regression to the linked data, with the doubt about the linkage in its intervals.

    Columns are those of a wide linked data set: fields by their names, other columns by theirs,
    with _FILE after it where several files have it. `smered regress RUN ""` lists them.

    [bold]Examples[/bold]

    smered regress linkage "income ~ year + sex"

    smered regress linkage "ill ~ dose_clinic" --kind logistic --json
    """
    from rich.markup import escape

    from smered.errors import ConfigError
    from smered.posterior import Posterior
    from smered.posterior.linked import LinkedTables
    from smered.propagate import linear, logistic, poisson
    from smered.suggest import suggest
    from smered.summary import finite

    kinds = {"linear": linear, "logistic": logistic, "poisson": poisson}
    if kind not in kinds:
        raise ConfigError(f"--kind {kind}: {suggest(kind, list(kinds))}")
    if exposure is not None and kind != "poisson":
        raise ConfigError("--exposure belongs to --kind poisson")
    posterior = Posterior.open(use_run(run))
    console = screen(json=json, quiet=quiet)
    if not formula.strip():
        columns = LinkedTables(posterior, "wide", None).columns
        if json:
            print_json({"columns": columns})
        else:
            console.print("Columns: " + escape(", ".join(columns)))
        return
    more: dict[str, Any] = {"exposure": exposure} if exposure else {}
    analysis = kinds[kind](formula, min_probability=min_probability, **more)
    found = posterior.propagate(analysis, draws, level=level, progress=not quiet)
    if json:
        failures = [failure._asdict() for failure in found.failures]
        print_json(
            {"formula": formula, "kind": kind, "level": level, "data_sets": len(found.outcomes),
             "terms": finite(found.table().to_pylist()),
             "failures": failures}
        )  # fmt: skip
    else:
        console.print(str(found), markup=False)


def population(
    run: o.Run,
    method: Annotated[
        list[str] | None,
        typer.Option(
            "--method",
            help="chapman (two files), loglinear, chao or graphs; repeatable. "
            "Default: all that fit the files.",
        ),
    ] = None,
    file: Annotated[
        list[str] | None,
        typer.Option("--file", metavar="NAME", help="Use these files only; repeatable."),
    ] = None,
    by: Annotated[
        str | None,
        typer.Option("--by", metavar="FIELD", help="Also by the true values of a field."),
    ] = None,
    draws: o.LinkageDraws = 200,
    level: o.Level = 0.95,
    loss: o.Loss = None,
    figures: o.Figures = None,
    json: o.Json = False,
    quiet: o.Quiet = False,
) -> None:
    """Estimate how many entities there are in all, seen or not, from the overlap of the files.

    Each method is averaged over draws of the linkage, and beside it computed as if the estimated
    linkage were certain.

    [bold]Examples[/bold]

    smered population linkage --figures figures

    smered population linkage --method graphs --by sex --json
    """  # fmt: skip
    from smered.errors import ConfigError
    from smered.population.show import print_population
    from smered.posterior import Posterior

    outputs = Outputs.of(run, loss, None, None, None)
    if figures is not None and figures.exists() and not figures.is_dir():
        raise ConfigError(f"{figures} is a file; choose another folder")
    found = Posterior.open(run).population(
        method or None, files=file or None, by=by, draws=draws, loss=outputs.loss, level=level
    )
    if json:
        print_json(found.to_dict())
    else:
        print_population(found, screen(json=False, quiet=quiet))
    if figures is not None:
        from smered.report.figures import population as draw
        from smered.report.figures import save

        save(draw(found), figures / "population")
