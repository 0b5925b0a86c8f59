"""Commands that make runs: link, resume, extend, and what to try them on: example, demo."""

import os
import signal
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from smered.cli import options as o
from smered.cli.choose import configure
from smered.cli.screen import print_json, screen, use_run
from smered.errors import ConfigError
from smered.suggest import suggest

if TYPE_CHECKING:
    from smered.execute.on_ray import RayCluster
    from smered.posterior import Posterior
    from smered.posterior.estimate import Estimate, Loss
    from smered.sources import ParquetTable, Source

__all__ = ["Outputs", "check_loss", "register"]


def register(app: typer.Typer) -> None:
    """Add these commands to the program."""
    for command in (link, resume, extend, example, demo, study):
        app.command()(command)


def link(
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
    config: o.Config = None,
    draws: o.Draws = None,
    burn_in: o.BurnIn = None,
    thin: o.Thin = None,
    chains: o.Chains = None,
    seed: o.Seed = None,
    threads: o.Threads = None,
    ray: o.Ray = None,
    out: o.Out = Path("linkage"),
    format: o.Formats = None,
    min_probability: o.MinProbability = None,
    loss: o.Loss = None,
    raw_csv: o.RawCsv = None,
    json: o.Json = False,
    quiet: o.Quiet = False,
    force: o.Force = False,
    dry_run: o.DryRun = False,
) -> None:
    """Link the records of one or more files.

    The run folder holds linked.csv (every record with its entity), entities.csv, pairs.csv,
    summary.json, all as Parquet too, and the whole posterior.

    [bold]Examples[/bold]

    smered link 1982.csv 1989.csv --id id --block sex --no-duplicates

    smered link register.parquet --ignore comment --missing NA --out register-linked

    smered link all.csv --file-column source --truth person --dry-run

    smered link --config link.toml --draws 2000 --out linkage

    smered link register.parquet --block year --ray head:6379 --out /shared/linkage
    """
    from smered.config import code_on_cluster, make_model, plain_values
    from smered.plan import make_plan, print_plan
    from smered.run import sample
    from smered.sampler import Settings
    from smered.sources import find_pieces, read_sources
    from smered.store.target import check_target

    console = screen(json=json, quiet=quiet)
    chosen = configure(
        config,
        files=files,
        fields=field,
        no_duplicates=no_duplicates,
        no_duplicates_in=no_duplicates_in,
        data={"id": id, "file_column": file_column, "ignore": ignore, "blocks": block,
              "missing": missing, "truth": truth, "encoding": encoding, "delimiter": delimiter},
        sampling={"draws": draws, "burn_in": burn_in, "thin": thin, "chains": chains, "seed": seed},
    )  # fmt: skip
    settings = Settings(**chosen.sampling.model_dump(), threads=threads or os.cpu_count() or 1)
    outputs = Outputs({}, loss, format, min_probability, raw_csv)
    if not dry_run:
        check_target(out, replace=force)
    cluster, coding = place(ray), None
    pieces = find_pieces(chosen.data.files) if cluster is not None else None
    sources: Mapping[str, Source | ParquetTable]
    if cluster is not None and pieces is not None:
        sources = pieces
        tell_sources(sources, console)
        coding, model = code_on_cluster(chosen, pieces, cluster)
        plan = make_plan(model, settings, look_for_pairs=False, name_block=coding.name_block)
    else:
        tables = read_sources(
            chosen.data.files, encoding=chosen.data.encoding, delimiter=chosen.data.delimiter
        )
        sources = tables
        tell_sources(sources, console)
        model = make_model(chosen, tables)
        plan = make_plan(model, settings)
    print_plan(plan, console)
    if dry_run:
        if json:
            print_json(asdict(plan))
        return
    use_run(out)
    provenance = {
        "sources": {
            name: {"place": source.label, "how": source.how} for name, source in sources.items()
        },
        "config": plain_values(chosen.model_dump(exclude={"data": {"files"}})),
        "outputs": outputs.settings(),
    }
    run_to_end(
        lambda observe: sample(
            model, out=out, observe=observe, provenance=provenance, replace=force,
            execute=cluster or "threads", keeper=coding, **vars(settings),
        ),
        out, settings, plan.records, console, quiet,
    )  # fmt: skip
    finish(out, console, json, outputs)


def resume(
    run: o.Run,
    threads: o.Threads = None,
    ray: o.Ray = None,
    format: o.Formats = None,
    min_probability: o.MinProbability = None,
    loss: o.Loss = None,
    raw_csv: o.RawCsv = None,
    json: o.Json = False,
    quiet: o.Quiet = False,
) -> None:
    """Go on with an interrupted run, to the same bytes as one that never stopped.

    [bold]Example[/bold]

    smered resume linkage
    """
    from smered.run import resume as go_on

    outputs = Outputs.of(run, loss, format, min_probability, raw_csv)
    continue_run(run, go_on, 0, threads, ray, json, quiet, outputs)


def extend(
    run: o.Run,
    draws: Annotated[int, typer.Option("--draws", help="Draws to add to every chain.")],
    threads: o.Threads = None,
    ray: o.Ray = None,
    format: o.Formats = None,
    min_probability: o.MinProbability = None,
    loss: o.Loss = None,
    raw_csv: o.RawCsv = None,
    json: o.Json = False,
    quiet: o.Quiet = False,
) -> None:
    """Add draws to every chain of a run.

    [bold]Example[/bold]

    smered extend linkage --draws 1000
    """
    from smered.run import extend as add

    def more(path: Path, **settings: Any) -> object:
        return add(path, draws, **settings)

    outputs = Outputs.of(run, loss, format, min_probability, raw_csv)
    continue_run(run, more, draws, threads, ray, json, quiet, outputs)


def example(
    folder: Annotated[Path, typer.Argument(metavar="[DIR]", help="Where to write them.")] = Path(
        "."
    ),
) -> None:
    """Write three small CSV files to try the program on.

    [bold]Example[/bold]

    smered example people
    """
    from smered.example import write_example

    for path in write_example(folder):
        typer.echo(path)


def demo(
    draws: Annotated[int, typer.Option(help="Draws kept per chain.")] = 1500,
    burn_in: Annotated[int, typer.Option(help="Sweeps before the first draw.")] = 200,
    chains: Annotated[int, typer.Option(help="Independent chains.")] = 4,
    share: Annotated[
        float, typer.Option(help="Share of the survey's 34,945 people to simulate.")
    ] = 0.1,
    seed: Annotated[int, typer.Option(help="Seed of the data and of the sampler.")] = 0,
    threads: Annotated[int, typer.Option(help="Threads; the result does not depend on it.")] = 2,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress bar.")] = False,
) -> None:
    """Link a simulated three-wave survey shaped like the paper's and compare with the truth.

    [bold]Example[/bold]

    smered demo --share 1 --draws 2000
    """
    from smered.demo import run_demo

    run_demo(
        draws=draws, burn_in=burn_in, chains=chains, seed=seed, threads=threads, share=share,
        quiet=quiet,
    )  # fmt: skip


def study(
    quick: Annotated[
        bool, typer.Option("--quick", help="A tenth of the data, in less than two minutes.")
    ] = False,
    out: Annotated[
        Path, typer.Option("--out", metavar="DIR", help="The folder of the study.")
    ] = Path("study"),
    seed: Annotated[int, typer.Option(help="Seed of the data and of the sampler.")] = 0,
    threads: o.Threads = None,
    quiet: o.Quiet = False,
    force: o.Force = False,
) -> None:
    """Repeat the paper's study on simulated surveys: tables, figures and a page of findings.

    A study that was interrupted goes on where it was when it is started again.

    [bold]Example[/bold]

    smered study --quick --out study
    """
    from smered.study.run import run_study

    try:
        page = run_study(
            out, size="quick" if quick else "full", seed=seed,
            threads=threads or os.cpu_count() or 1, console=screen(json=False, quiet=quiet),
            quiet=quiet, replace=force,
        )  # fmt: skip
    except KeyboardInterrupt:
        typer.echo("Interrupted; the same command goes on from here", err=True)
        raise typer.Exit(130) from None
    screen(json=False, quiet=quiet).print(str(page), markup=False)


def continue_run(
    run: Path,
    go_on: Any,
    more: int,
    threads: int | None,
    ray: str | None,
    json: bool,
    quiet: bool,
    outputs: "Outputs",
) -> None:
    """Resume or extend, then write the outputs again."""
    from dataclasses import replace

    from smered.store.folder import RunFolder

    console = screen(json=json, quiet=quiet)
    folder = RunFolder.open(use_run(run))
    settings = replace(folder.settings, draws=folder.settings.draws + more)
    run_to_end(
        lambda observe: go_on(
            run, threads=threads, observe=observe, execute=place(ray) or "threads"
        ),
        run, settings, folder.content.records, console, quiet,
    )  # fmt: skip
    finish(run, console, json, outputs)


def tell_sources(sources: "Mapping[str, Source | ParquetTable]", console: Console) -> None:
    """Say what was found of each table."""
    for source in sources.values():
        console.print(f"{source.label}: {source.how}, {source.rows:,} rows", markup=False)
        for note in source.notes:
            console.print(f"  {note}", markup=False)


def place(ray: str | None) -> "RayCluster | None":
    """The Ray cluster to run on, if there is to be one."""
    if ray is None:
        return None
    from smered.execute.on_ray import RayCluster

    return RayCluster(None if ray == "auto" else ray)


def run_to_end(
    start: Any, folder: Path, settings: Any, records: int, console: Console, quiet: bool
) -> None:
    """Sample with a progress bar; end with exit code 130 if it was interrupted."""
    from smered.progress import SamplingProgress
    from smered.store.folder import RunFolder

    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as schedulers say stop
    try:
        with SamplingProgress(settings, records, console, quiet) as observe:
            start(observe)
        whole = min(RunFolder.open(folder).draws_done()) == settings.draws
    except KeyboardInterrupt:
        whole = False
    if not whole:
        typer.echo(f"Interrupted; what was done so far is kept: smered resume {folder}", err=True)
        raise typer.Exit(130)


class Outputs:
    """What is written at the end, checked before hours of sampling.

    What is not given is as it was when the run was made, or else as usual.
    """

    def __init__(
        self,
        before: Mapping[str, Any],
        loss: str | None,
        formats: str | None,
        min_probability: float | None,
        raw: bool | None,
    ) -> None:
        from smered.outputs import FORMATS

        given: dict[str, Any] = {"loss": loss, "min_probability": min_probability, "raw": raw}
        given["formats"] = [name.strip() for name in formats.split(",")] if formats else None
        usual = {"loss": "mpmms", "formats": list(FORMATS), "min_probability": 0.1, "raw": False}
        settled: dict[str, Any] = usual | {k: before[k] for k in usual if k in before}
        settled |= {key: value for key, value in given.items() if value is not None}
        self.loss = check_loss(settled["loss"])
        self.formats, self.raw = list(settled["formats"]), bool(settled["raw"])
        self.min_probability = float(settled["min_probability"])
        for name in self.formats:
            if name not in FORMATS:
                raise ConfigError(f"--format {name}: {suggest(name, FORMATS)}")
        if not 0 <= self.min_probability <= 1:
            raise ConfigError(f"--min-probability {self.min_probability} must be between 0 and 1")

    @classmethod
    def of(cls, run: Path, *given: Any) -> "Outputs":
        """Settings for the outputs of an existing run."""
        from smered.store.folder import RunFolder

        before = RunFolder.open(use_run(run)).content.provenance.get("outputs")
        return cls(before if isinstance(before, dict) else {}, *given)

    def settings(self) -> dict[str, Any]:
        """Everything as values that JSON holds."""
        return vars(self).copy()

    def write(self, posterior: "Posterior", folder: Path, estimate: "Estimate") -> list[Path]:
        """Write everything."""
        from smered.outputs import write_outputs

        return write_outputs(
            posterior, folder, estimate=estimate, formats=self.formats,
            min_probability=self.min_probability, raw=self.raw,
        )  # fmt: skip


def check_loss(loss: str) -> "Loss":
    """The name of a loss."""
    losses = ("mpmms", "binder", "vi", "f1")
    if loss not in losses:
        raise ConfigError(f"--loss {loss}: {suggest(loss, losses)}")
    return loss  # type: ignore[return-value]


def finish(run: Path, console: Console, json: bool, outputs: Outputs) -> None:
    """Write the outputs of a run and show its summary."""
    from smered.posterior import Posterior
    from smered.store.disk import read_json
    from smered.summary import print_summary

    posterior = Posterior.open(run)
    written = outputs.write(posterior, run, posterior.estimate(outputs.loss))
    summary = read_json(run / "summary.json")
    if json:
        print_json(summary)
        return
    print_summary(summary, console)
    names = ", ".join(path.name for path in written)
    console.print(f"Written to {run}: {names}", markup=False)
