"""From tables to a posterior: link, sample, resume, extend."""

import dataclasses
import os
import threading
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from smered.errors import ConfigError, ConvergenceWarning, RunError
from smered.execute import Serial, make_executor
from smered.fields import Field
from smered.model import Distortion, Duplicates, Model, as_fields
from smered.pairs import InformedPairs, PairChoice
from smered.parts import Cuts
from smered.posterior import Posterior
from smered.priors import ClusterSizes, PriorChoice
from smered.records import Records, named_frames
from smered.sampler import Settings, Step, run_chain
from smered.state import ChainState, find_wrong_link
from smered.store.memory import MemoryRun
from smered.store.parts import LocalLinkage
from smered.store.target import check_target
from smered.warm import compile_kernels

if TYPE_CHECKING:
    from smered.execute.on_ray.cluster import OnCluster, RayCluster
    from smered.sources import ParquetTable
    from smered.store.folder import RunFolder
    from smered.store.keeper import Keeper

__all__ = ["Observer", "extend", "link", "resume", "sample"]

Run: TypeAlias = "RunFolder | MemoryRun"
Execute: TypeAlias = "Literal['threads', 'ray'] | RayCluster"
Observer = Callable[[Step], None]  # told of every sweep of every chain, from any thread

# A checkpoint costs about as much as a sweep: it is made after this many records were swept, and
# before the level probabilities of its draws take this many bytes.
RECORDS_BETWEEN_CHECKPOINTS = 5_000_000
LEAST_BETWEEN_CHECKPOINTS = 10  # sweeps
BYTES_BETWEEN_CHECKPOINTS = 64_000_000


def link(
    frames: Any,
    fields: Sequence[str | Field],
    *,
    id: str | None = None,
    file_column: str | None = None,
    blocks: str | Sequence[str] = (),
    missing: Sequence[str] = (),
    duplicates: Duplicates = True,
    distortion: Distortion = "field",
    classes: int = 1,
    time_order: Sequence[str] = (),
    prior: PriorChoice | None = None,
    pairs: PairChoice | None = None,
    out: str | os.PathLike[str] | None = None,
    observe: Observer | None = None,
    execute: Execute = "threads",
    **settings: Any,
) -> Posterior:
    """Link the records of one or more tables and return the posterior.

    `frames` maps file names to data frames or to the places of tables (or is one of these, with
    `file_column` naming the file of each row). `fields` are the columns to compare. See
    `Records.from_frames`, `Model` and `Settings` for everything else; `out` keeps the run in a
    folder. `execute` is "threads", "ray", or a `RayCluster`; a cluster codes Parquet files without
    holding any of them whole.
    """
    columns = [column for field in as_fields(fields) for column in field.columns]
    reading: dict[str, Any] = {"columns": columns, "id": id, "file_column": file_column}
    reading |= {"blocks": [blocks] if isinstance(blocks, str) else blocks, "missing": missing}
    meaning: dict[str, Any] = {
        "duplicates": duplicates,
        "distortion": distortion,
        "classes": classes,
        "time_order": tuple(time_order),
        "prior": prior or ClusterSizes(),
        "pairs": pairs or InformedPairs(),
    }
    cluster = find_cluster(execute)
    pieces = find_pieces(frames) if cluster is not None else None
    if cluster is not None and pieces is not None:
        check_first(out, settings, cluster)  # before the work of coding
        coding = cluster.coding(pieces, **reading)
        model = coding.model(fields, **meaning)
    else:
        coding, model = None, Model(Records.from_frames(frames, **reading), fields, **meaning)
    return sample(model, out=out, observe=observe, execute=execute, keeper=coding, **settings)


def find_pieces(frames: Any) -> "dict[str, ParquetTable] | None":
    """The Parquet tables that frames are the places of, if all are."""
    from smered import sources

    named = named_frames(frames)
    if not named or not all(isinstance(place, str | os.PathLike) for place in named.values()):
        return None
    places = {name: os.fspath(place) for name, place in named.items()}
    found = [sources.find_pieces([place]) for place in places.values()]
    if None in found:
        return None
    tables = [table for each in found if each is not None for table in each.values()]
    return {name: table._replace(name=name) for name, table in zip(places, tables, strict=True)}


def sample(
    model: Model,
    *,
    out: str | os.PathLike[str] | None = None,
    observe: Observer | None = None,
    provenance: Mapping[str, Any] | None = None,
    replace: bool = False,
    parts: int | None = None,
    execute: Execute = "threads",
    keeper: "Keeper | None" = None,
    **settings: Any,
) -> Posterior:
    """Sample the posterior of a model, in memory or into the run folder `out`.

    `provenance` is kept in the folder's run.json: where the data came from, for example. `replace`
    removes a run that the folder holds. The folder keeps the linkage in so many `parts` (default:
    one per 250,000 records), which workers can share if `execute` is "ray" or a `RayCluster`. A
    `keeper` writes the records of a model that holds none.
    """
    cluster = find_cluster(execute)
    settled = check_first(out, settings, cluster, replace=replace)
    every = checkpoint_interval(model)
    run: Run
    if out is None:
        run = MemoryRun(model, settled, every)
    else:
        from smered.store.folder import RunFolder

        run = RunFolder.create(
            Path(out), model, settled, every, provenance=provenance, replace=replace, parts=parts,
            keeper=keeper,
        )  # fmt: skip
    return carry_out(run, model, settled, observe, cluster)


def check_first(
    out: str | os.PathLike[str] | None,
    settings: Mapping[str, Any],
    cluster: "RayCluster | None",
    replace: bool = False,
) -> Settings:
    """Check the settings of a run and the folder it is to be kept in."""
    known, others = Settings.__dataclass_fields__, ("parts", "provenance", "replace")
    own = {name: value for name, value in settings.items() if name not in others}
    for name in own:
        if name not in known:
            raise ConfigError(f"unknown setting {name!r}; there are: {', '.join(known)}")
    if cluster is not None and out is None:
        raise ConfigError("a run on Ray needs a folder that its workers see: give out=")
    if out is not None:
        check_target(Path(out), replace=bool(settings.get("replace", replace)))
    return Settings(**({"threads": os.cpu_count() or 1} | own))


def resume(
    out: str | os.PathLike[str],
    *,
    threads: int | None = None,
    observe: Observer | None = None,
    execute: Execute = "threads",
) -> Posterior:
    """Go on with an interrupted run; it ends with the bytes of one that never stopped."""
    return go_on(open_folder(out), threads, observe, find_cluster(execute))


def extend(
    out: str | os.PathLike[str],
    draws: int,
    *,
    threads: int | None = None,
    observe: Observer | None = None,
    execute: Execute = "threads",
) -> Posterior:
    """Add draws to every chain of a run; the result is that of one longer run."""
    more = Settings(draws=draws).draws  # a whole number, at least 1
    run, cluster = open_folder(out), find_cluster(execute)
    run.lock()
    try:
        run.extend(run.settings.draws + more)
        return go_on(run, threads, observe, cluster)
    finally:
        run.unlock()


def go_on(
    run: "RunFolder",
    threads: int | None,
    observe: Observer | None,
    cluster: "RayCluster | None",
) -> Posterior:
    """Carry out what is left of a run."""
    settled = dataclasses.replace(run.settings, threads=threads or os.cpu_count() or 1)
    return carry_out(run, None, settled, observe, cluster)


def open_folder(out: str | os.PathLike[str]) -> "RunFolder":
    """Open a run folder; what reads it is loaded only where there is one."""
    from smered.store.folder import RunFolder

    return RunFolder.open(Path(out))


def find_cluster(execute: Execute) -> "RayCluster | None":
    """Connect to the Ray cluster to run on, if there is to be one."""
    if execute == "threads":
        return None
    from smered.execute.on_ray.cluster import RayCluster

    cluster = RayCluster() if execute == "ray" else execute
    if not isinstance(cluster, RayCluster):
        raise ConfigError(f"execute = {execute!r} must be 'threads', 'ray' or a RayCluster")
    cluster.connect()
    return cluster


def checkpoint_interval(model: Model) -> int:
    """Sweeps between checkpoints: where files are cut, so it depends on the model alone."""
    by_records = RECORDS_BETWEEN_CHECKPOINTS // model.size
    by_bytes = BYTES_BETWEEN_CHECKPOINTS // (8 * len(model.mu))
    return max(LEAST_BETWEEN_CHECKPOINTS, min(100, by_records, by_bytes))


def carry_out(
    run: Run,
    model: Model | None,
    settings: Settings,
    observe: Observer | None,
    cluster: "RayCluster | None" = None,
) -> Posterior:
    """Run all chains to their end, or to the end of the current sweep after an interrupt.

    A `model` that is left out is read from the run folder, where and when it is needed.
    """
    run.lock()
    try:
        started = time.perf_counter()
        if cluster is None or isinstance(run, MemoryRun):
            model = model or run.model()
            run_chains(run, settings, observe, Here(run, model, settings))
        else:
            model = None  # what a cluster samples may be more than this machine holds
            run_chains(run, settings, observe, cluster.seats(run, settings))
        run.finish(time.perf_counter() - started, threads=settings.threads)
    finally:
        run.unlock()
    if max(run.draws_done()) == 0:
        raise KeyboardInterrupt("interrupted before the first draw")
    posterior = Posterior(run, model)
    verdict = posterior.diagnostics() if model is not None else posterior.first_verdict()
    for message in verdict.warnings:
        warnings.warn(message, ConvergenceWarning, stacklevel=4)
    return posterior


class Here:
    """Seats for chains in this process: side by side on the threads there are.

    What is left of the threads is shared out within chains.
    """

    failures: tuple[type[Exception], ...] = ()  # after which a chain can go on in another seat

    def __init__(self, run: Run, model: Model, settings: Settings) -> None:
        compile_kernels()
        self.model = model
        self.at_once = min(settings.chains, settings.threads)
        self._threads = settings.threads // self.at_once
        self._layout = model.layout(settings.proposals)
        self._cuts = Cuts.of(self._layout, run.parts)

    def seat(self, chain: int) -> tuple[Serial, LocalLinkage]:
        """What runs a chain, and what keeps its linkage."""
        execute = make_executor(self.model, self._layout, self._threads)
        crossing = self.model.rotates and self._cuts.parts > 1
        return execute, LocalLinkage(chain, self.model.order, self._cuts, crossing=crossing)

    def check(self, chain: int, state: ChainState) -> None:
        """Refuse a linkage, read from a checkpoint, that kernels could not go on from."""
        wrong = find_wrong_link(state.entity, self.model, self._layout)
        if wrong:
            raise RunError(f"the checkpoint of chain {chain} is damaged: {wrong}")

    def recover(self, error: Exception) -> None:
        """Nothing is lost here that could be found again."""
        raise error


def run_chains(
    run: Run, settings: Settings, observe: Observer | None, place: "Here | OnCluster"
) -> None:
    """Run all chains in a place, as many at once as it has seats for."""
    stop = threading.Event()

    def follow(chain: int) -> None:
        execute, linkage = place.seat(chain)
        with closing(execute):
            state, recorder = run.restore(chain, place.model, linkage)
            if state is not None:
                place.check(chain, state)
            for step in run_chain(place.model, settings, chain, execute, state):
                recorder.add(step)
                stopping = stop.is_set()
                sweep = step.state.sweep
                if stopping or sweep % run.every == 0 or sweep == settings.sweeps:
                    run.commit(chain, step.state, recorder)
                if observe is not None:
                    observe(step)
                if stopping:
                    return

    def work(chain: int) -> None:
        while not stop.is_set():
            try:
                follow(chain)
            except place.failures as error:
                place.recover(error)
            else:
                return

    with ThreadPoolExecutor(place.at_once, thread_name_prefix="chain") as pool:
        chains: list[Future[None]] = []
        try:
            chains = [pool.submit(work, chain) for chain in range(settings.chains)]
            wait(chains, return_when="FIRST_EXCEPTION")
        except KeyboardInterrupt:
            kept = "keeps the draws made so far" if isinstance(run, MemoryRun) else "can be resumed"
            warnings.warn(f"interrupted: the run ends here and {kept}", stacklevel=5)
        finally:
            stop.set()
        for future in chains:
            future.result()
