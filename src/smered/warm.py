"""The first run compiles the kernels; two processes share that work and keep the result.

Compiling holds a lock that threads cannot get around. So a second process compiles what a sweep
needs besides its proposals, while this one compiles those.
"""

import fcntl
import gc
import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np
import pyarrow as pa

from smered.execute.serial import Serial
from smered.joint import doubtful_fields, draw_jointly
from smered.model import Model
from smered.pairs import Arranged, InformedPairs, PairChoice, PairTables, Pattern
from smered.records import Records
from smered.sampler import condition_prior
from smered.state import SHARING, ChainState, generator, start_state, tabulate_state

__all__ = ["compile_kernels"]

OTHERS = "import gc; gc.disable(); from smered.warm import compile_others; compile_others()"


def compile_kernels() -> None:
    """Compile what is not compiled yet, on two cores where there are two.

    Of several processes that come here at the same time, one compiles and the others wait.
    """
    from smered.kernels.jit import CACHE_FOLDER, is_compiled

    if is_compiled("propose_blocks") or (os.cpu_count() or 1) < 2:
        return
    with suppress(OSError):  # where nothing can be kept or started, compile as kernels are called
        folder = Path(CACHE_FOLDER)
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # given free when the file is closed
            if not is_compiled("propose_blocks"):
                compile_together()


def compile_together() -> None:
    """Compile proposals in this process, and everything else in another one."""
    command = [sys.executable, "-c", OTHERS]
    path = os.pathsep.join(filter(None, sys.path))
    quiet = subprocess.DEVNULL
    with subprocess.Popen(
        command, env=os.environ | {"PYTHONPATH": path}, stdin=quiet, stdout=quiet, stderr=quiet
    ):
        gc.disable()  # compiling makes many objects that last, and little to collect
        try:
            compile_proposals()
        finally:
            gc.enable()


def compile_proposals() -> None:
    """Call what makes proposals, and what grades them: they have most of their code in common."""
    model, execute, state = example(AllPairs())
    tables = tabulate_state(state, model)
    prior = condition_prior(state, model, generator(0, 0, 1))
    execute.grade(state, tables, prior, 0, 0, 0)
    execute.propose(state, tables, execute.block_prior(state, prior, 0, 0, SHARING), 0, 0)


def compile_others() -> None:
    """Call every other kernel of a run."""
    model, execute, state = example(InformedPairs())
    tables = tabulate_state(state, model)
    execute.count(state, tables, 0, 0)
    for field in doubtful_fields(execute, model, worthwhile=0.0):
        draw_jointly(state, model, field, execute, 0, 0, np.random.default_rng(0))


class AllPairs:
    """Every pair is a candidate: lists that need no kernel."""

    def patterns(self, records: Arranged) -> list[Pattern]:
        """Nothing to look for."""
        return []

    def tables(self, records: Arranged, patterns: Sequence[Pattern] = ()) -> PairTables:
        """List all other records for each."""
        n = len(records.values)
        others = [[other for other in range(n) if other != record] for record in range(n)]
        return PairTables(np.arange(n + 1) * (n - 1), np.array(others, np.int32).ravel(), 0.1)


def example(pairs: PairChoice) -> tuple[Model, Serial, ChainState]:
    """A linkage of four records, with all the types that any other has."""
    table = pa.table({"one": ["a", "b", "b", "a"], "two": ["x", "x", "y", "y"]})
    records = Records.from_frames(table, columns=["one", "two"])
    model = Model(records, ["one", "two"], pairs=pairs)
    layout = model.layout()
    return model, Serial(model, layout), start_state(model, layout, 0, 0)
