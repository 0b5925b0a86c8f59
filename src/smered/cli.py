"""The command line."""

import sys
from typing import Annotated

import typer

import smered
from smered.errors import SmeredError

__all__ = ["app", "main"]

app = typer.Typer(
    help="Bayesian record linkage and de-duplication with exact uncertainty.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
)


@app.callback(invoke_without_command=True)
def options(
    version: Annotated[bool, typer.Option("--version", help="Show the version and stop.")] = False,
) -> None:
    """Bayesian record linkage and de-duplication with exact uncertainty."""
    if version:
        typer.echo(f"smered {smered.__version__}")
        raise typer.Exit


@app.command()
def demo(
    draws: Annotated[int, typer.Option(help="Draws kept per chain.")] = 100,
    burn_in: Annotated[int, typer.Option(help="Sweeps before the first draw.")] = 50,
    chains: Annotated[int, typer.Option(help="Independent chains.")] = 2,
    seed: Annotated[int, typer.Option(help="Seed of the data and of the sampler.")] = 0,
    threads: Annotated[int, typer.Option(help="Threads; the result does not depend on it.")] = 2,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress bar.")] = False,
) -> None:
    """Link a simulated three-wave survey shaped like the paper's and compare with the truth.

    Example: smered demo --draws 500 --chains 4
    """
    from smered.demo import run_demo

    run_demo(draws=draws, burn_in=burn_in, chains=chains, seed=seed, threads=threads, quiet=quiet)


def main() -> None:
    """Run the program; errors meant for the user end with one line and exit code 2."""
    try:
        app()
    except SmeredError as error:
        typer.echo(f"smered: {error}", err=True)
        sys.exit(2)
