"""Commands about link.toml: init, config check, config show."""

from pathlib import Path
from typing import Annotated

import typer

from smered.cli import options as o
from smered.cli.choose import configure
from smered.cli.screen import print_json, screen

__all__ = ["register"]

HELP = """Check or show a link.toml.

[bold]Examples[/bold]

smered config check link.toml

smered config show link.toml
"""
config_app = typer.Typer(help=HELP, no_args_is_help=True)

ConfigFile = Annotated[Path, typer.Argument(metavar="TOML", help="A link.toml.")]


def register(app: typer.Typer) -> None:
    """Add these commands to the program."""
    app.command()(init)
    app.add_typer(config_app, name="config")


def init(
    files: o.Files = None,
    id: o.Id = None,
    file_column: o.FileColumn = None,
    field: o.Fields = None,
    ignore: o.Ignore = None,
    block: o.Blocks = None,
    no_duplicates: o.NoDuplicates = None,
    no_duplicates_in: o.NoDuplicatesIn = None,
    missing: o.Missing = None,
    truth: o.Truth = None,
    encoding: o.Encoding = None,
    delimiter: o.Delimiter = None,
    config: Annotated[
        Path, typer.Option("--config", metavar="TOML", help="The file to write.")
    ] = Path("link.toml"),
    quiet: o.Quiet = False,
    force: o.Force = False,
) -> None:
    """Look at files and write a commented link.toml.

    It guesses ids, missing markers, fields and blocks, and says why. Read it, change it, then
    [bold]smered link --config link.toml[/bold].

    [bold]Example[/bold]

    smered init 1982.csv 1989.csv 1994.csv --config link.toml
    """
    from smered.config import check_headers, make_model, write_toml
    from smered.errors import ConfigError
    from smered.guess import guess
    from smered.sources import read_sources
    from smered.store.disk import write_text

    console = screen(json=False, quiet=quiet)
    if config.exists() and not force:
        raise ConfigError(f"{config} exists already; --force replaces it")
    given = configure(
        None,
        files=files,
        fields=field,
        no_duplicates=no_duplicates,
        no_duplicates_in=no_duplicates_in,
        data={"id": id, "file_column": file_column, "ignore": ignore, "blocks": block,
              "missing": missing, "truth": truth, "encoding": encoding, "delimiter": delimiter},
    )  # fmt: skip
    sources = read_sources(given.data.files, encoding=encoding, delimiter=delimiter)
    check_headers({name: source.table for name, source in sources.items()})
    found, reasons = guess(given, sources, folder=config.parent)
    make_model(found, sources)  # what is written must work
    write_text(config, write_toml(found, reasons))
    for key, reason in reasons.items():
        console.print(f"{key.removeprefix('fields.')}: {reason}", markup=False)
    console.print(f"Written to {config}; next: smered link --config {config}", markup=False)


@config_app.command()
def check(config: ConfigFile) -> None:
    """Check a link.toml and that it fits the files it names.

    [bold]Example[/bold]

    smered config check link.toml
    """
    from smered.config import load_config, make_model
    from smered.sampler import Settings
    from smered.sources import read_sources

    found = load_config(config)
    Settings(**found.sampling.model_dump())
    console = screen(json=False, quiet=False)
    if not found.data.files:
        console.print(f"{config} is valid; it names no files to check it against", markup=False)
        return
    sources = read_sources(
        found.data.files, encoding=found.data.encoding, delimiter=found.data.delimiter
    )
    model = make_model(found, sources)
    console.print(
        f"{config} is valid and fits its files: {len(model.records):,} records, "
        f"{len(model.coded)} fields", markup=False,
    )  # fmt: skip


@config_app.command()
def show(config: ConfigFile, json: o.Json = False) -> None:
    """Show every setting of a link.toml, defaults included.

    [bold]Example[/bold]

    smered config show link.toml
    """
    from smered.config import load_config, plain_values, write_toml

    found = load_config(config)
    if json:
        print_json(plain_values(found.model_dump()))
    else:
        typer.echo(write_toml(found, {}), nl=False)
