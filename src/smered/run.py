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
from typing import Any

from smered.errors import ConfigError, ConvergenceWarning
from smered.execute import make_executor
from smered.fields import Field
from smered.model import Distortion, Duplicates, Model, as_fields
from smered.pairs import InformedPairs, PairChoice
from smered.posterior import Posterior
from smered.priors import Prior, UniformLabels
from smered.records import Records
from smered.sampler import Settings, Step, run_chain
from smered.store.folder import RunFolder
from smered.store.memory import MemoryRun
from smered.warm import compile_kernels

__all__ = ["Observer", "extend", "link", "resume", "sample"]

Run = RunFolder | MemoryRun
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
    prior: Prior | None = None,
    pairs: PairChoice | None = None,
    out: str | os.PathLike[str] | None = None,
    observe: Observer | None = None,
    **settings: Any,
) -> Posterior:
    """Link the records of one or more tables and return the posterior.

    `frames` maps file names to data frames (or is one frame, with `file_column` naming the file of
    each row). `fields` are the columns to compare. See `Records.from_frames`, `Model` and
    `Settings` for everything else; `out` keeps the run in a folder.
    """
    columns = [column for field in as_fields(fields) for column in field.columns]
    records = Records.from_frames(
        frames, columns=columns, id=id, file_column=file_column, blocks=blocks, missing=missing
    )
    model = Model(
        records,
        fields,
        duplicates=duplicates,
        distortion=distortion,
        classes=classes,
        prior=prior or UniformLabels(),
        pairs=pairs or InformedPairs(),
    )
    return sample(model, out=out, observe=observe, **settings)


def sample(
    model: Model,
    *,
    out: str | os.PathLike[str] | None = None,
    observe: Observer | None = None,
    provenance: Mapping[str, Any] | None = None,
    replace: bool = False,
    **settings: Any,
) -> Posterior:
    """Sample the posterior of a model, in memory or into the run folder `out`.

    `provenance` is kept in the folder's run.json: where the data came from, for example. `replace`
    removes a run that the folder holds.
    """
    known = Settings.__dataclass_fields__
    for name in settings:
        if name not in known:
            raise ConfigError(f"unknown setting {name!r}; there are: {', '.join(known)}")
    settled = Settings(**({"threads": os.cpu_count() or 1} | settings))
    every = checkpoint_interval(model)
    run: Run
    if out is None:
        run = MemoryRun(model, settled, every)
    else:
        run = RunFolder.create(
            Path(out), model, settled, every, provenance=provenance, replace=replace
        )
    return carry_out(run, model, settled, observe)


def resume(
    out: str | os.PathLike[str], *, threads: int | None = None, observe: Observer | None = None
) -> Posterior:
    """Go on with an interrupted run; it ends with the bytes of one that never stopped."""
    run = RunFolder.open(Path(out))
    settled = dataclasses.replace(run.settings, threads=threads or os.cpu_count() or 1)
    return carry_out(run, run.model(), settled, observe)


def extend(
    out: str | os.PathLike[str],
    draws: int,
    *,
    threads: int | None = None,
    observe: Observer | None = None,
) -> Posterior:
    """Add draws to every chain of a run; the result is that of one longer run."""
    if draws < 1:
        raise ConfigError(f"draws = {draws} must be at least 1")
    run = RunFolder.open(Path(out))
    run.lock()
    try:
        run.extend(run.settings.draws + draws)
    finally:
        run.unlock()
    return resume(out, threads=threads, observe=observe)


def checkpoint_interval(model: Model) -> int:
    """Sweeps between checkpoints: where files are cut, so it depends on the model alone."""
    by_records = RECORDS_BETWEEN_CHECKPOINTS // len(model.records)
    by_bytes = BYTES_BETWEEN_CHECKPOINTS // (8 * len(model.mu))
    return max(LEAST_BETWEEN_CHECKPOINTS, min(100, by_records, by_bytes))


def carry_out(run: Run, model: Model, settings: Settings, observe: Observer | None) -> Posterior:
    """Run all chains to their end, or to the end of the current sweep after an interrupt."""
    if isinstance(run, RunFolder):
        run.lock()
        try:
            started = time.perf_counter()
            run_chains(run, model, settings, observe)
            seconds = round(time.perf_counter() - started, 3)
            run.finish(seconds=seconds, threads=settings.threads)
        finally:
            run.unlock()
    else:
        run_chains(run, model, settings, observe)
    if max(run.draws_done()) == 0:
        raise KeyboardInterrupt("interrupted before the first draw")
    posterior = Posterior(model, run)
    for message in posterior.diagnostics().warnings:
        warnings.warn(message, ConvergenceWarning, stacklevel=4)
    return posterior


def run_chains(run: Run, model: Model, settings: Settings, observe: Observer | None) -> None:
    """Run chains side by side on the threads there are; share the rest out within chains."""
    stop = threading.Event()
    compile_kernels()
    layout = model.layout(settings.proposals)
    at_once = min(settings.chains, settings.threads)

    def work(chain: int) -> None:
        if stop.is_set():
            return
        with closing(make_executor(model, layout, settings.threads // at_once)) as execute:
            state, recorder = run.restore(chain, model)
            for step in run_chain(model, settings, chain, execute, state):
                recorder.add(step)
                stopping = stop.is_set()
                sweep = step.state.sweep
                if stopping or sweep % run.every == 0 or sweep == settings.sweeps:
                    run.commit(chain, step.state, recorder)
                if observe is not None:
                    observe(step)
                if stopping:
                    return

    with ThreadPoolExecutor(at_once, thread_name_prefix="chain") as pool:
        chains: list[Future[None]] = []
        try:
            chains = [pool.submit(work, chain) for chain in range(settings.chains)]
            wait(chains, return_when="FIRST_EXCEPTION")
        except KeyboardInterrupt:
            kept = "can be resumed" if isinstance(run, RunFolder) else "keeps the draws made so far"
            warnings.warn(f"interrupted: the run ends here and {kept}", stacklevel=5)
        finally:
            stop.set()
        for future in chains:
            future.result()
