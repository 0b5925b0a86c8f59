"""The command line: one program, one set of flag names."""

import atexit
import io
import os
import re
import sys
import traceback
import warnings
from contextlib import suppress
from itertools import zip_longest
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

import smered
from smered.cli import analyse, ask, settings, work
from smered.cli.screen import is_new, is_quiet, run_in_use
from smered.errors import ConvergenceWarning, SmeredError
from smered.store.target import LOG

__all__ = ["app", "main", "program"]

HELP = """Bayesian record linkage and de-duplication with exact uncertainty.

[bold]Examples[/bold]

smered init 1982.csv 1989.csv --config link.toml

smered link --config link.toml

smered report linkage
"""

app = typer.Typer(
    help=HELP,
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)
for module in (work, ask, analyse, settings):
    module.register(app)

ADDRESS = re.compile(r"auto|(ray://)?[^:/]+:\d+")  # of a Ray cluster
PASSWORD = re.compile(r"(//[^:/@\s]*):[^\s'\"]*@|((?:ssl)?password=)[^&\s'\"]+")


@app.callback(invoke_without_command=True)
def options(
    version: Annotated[bool, typer.Option("--version", help="Show the version and stop.")] = False,
) -> None:
    """Show the version, or go on to a command."""
    if version:
        typer.echo(f"smered {smered.__version__}")
        raise typer.Exit


def main() -> None:
    """Run the program.

    Errors meant for the user end with one line and exit code 2; unexpected ones with exit code 1,
    and their traceback goes to a log file in the run folder.
    """
    for output in (sys.stdout, sys.stderr):
        if isinstance(output, io.TextIOWrapper):
            output.reconfigure(errors="replace")  # a terminal may lack some letters
    warnings.showwarning = show_note
    warnings.simplefilter("ignore", ConvergenceWarning)  # the summary says it in full
    try:
        app(with_addresses(sys.argv[1:]))
    except SmeredError as error:
        typer.echo(f"smered: {hide_passwords(str(error))}", err=True)
        sys.exit(2)
    except Exception as error:
        where = write_log(run_in_use())
        message = hide_passwords(" ".join(f"{type(error).__name__}: {error}".split()))
        typer.echo(f"smered: unexpected error ({message}){where}", err=True)
        sys.exit(1)


def program() -> NoReturn:
    """Run as a process of its own, which ends without taking its libraries apart.

    Threads of theirs may still be at work when a command ends early: the process was then aborted.
    """
    code = 0
    try:
        main()
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    atexit._run_exitfuncs()
    for output in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            output.flush()
    os._exit(code)


def with_addresses(arguments: list[str]) -> list[str]:
    """Give --ray an address where none follows it: that of this machine's own cluster.

    >>> with_addresses(["link", "--ray", "a.csv"])
    ['link', '--ray=auto', 'a.csv']
    >>> with_addresses(["link", "--ray", "head:6379", "a.csv"])
    ['link', '--ray', 'head:6379', 'a.csv']
    >>> with_addresses([])
    []
    """
    return [
        "--ray=auto" if argument == "--ray" and not ADDRESS.fullmatch(following) else argument
        for argument, following in zip_longest(arguments, arguments[1:], fillvalue="")
    ]


def show_note(message: Warning | str, *_: Any, **__: Any) -> None:
    """Show a warning as one line, once, without where in the program it arose."""
    note = f"Note: {message}"
    if not is_quiet() and is_new(note):
        typer.echo(note, err=True)


def write_log(folder: Path | None) -> str:
    """Keep the traceback of an unexpected error; say where."""
    text = hide_passwords(traceback.format_exc())
    if folder is None:
        if os.environ.get("SMERED_DEBUG"):
            typer.echo(text, err=True)
        return "; set SMERED_DEBUG=1 to see where it arose"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / LOG).open("a") as file:
            file.write(text)
    except OSError:
        return ""
    return f"; details are in {folder / LOG}"


def hide_passwords(text: str) -> str:
    """A text without the passwords of addresses."""
    return PASSWORD.sub(lambda found: f"{found[1]}:***@" if found[1] else f"{found[2]}***", text)
