"""The first run compiles the kernels; two processes share that work and keep the result.

Compiling holds a lock that threads cannot get around. So a second process compiles what a sweep
needs besides its proposals, while this one compiles those.
"""

import os
import subprocess
import sys
from contextlib import suppress

import numpy as np
import pyarrow as pa

from smered.execute.serial import Serial
from smered.joint import draw_jointly, find_doubtful
from smered.model import Model
from smered.records import Records
from smered.sampler import condition_prior
from smered.state import ChainState, generator, start_state, tabulate_state

__all__ = ["compile_kernels"]

OTHERS = "from smered.warm import compile_others; compile_others()"


def compile_kernels() -> None:
    """Compile what is not compiled yet, on two cores where there are two."""
    from smered.kernels.jit import is_compiled

    if is_compiled("propose_blocks") or (os.cpu_count() or 1) < 2:
        return
    with suppress(OSError):  # where no process can be started, compile as kernels are called
        command = [sys.executable, "-c", OTHERS]
        path = os.pathsep.join(filter(None, sys.path))
        quiet = subprocess.DEVNULL
        with subprocess.Popen(
            command, env=os.environ | {"PYTHONPATH": path}, stdin=quiet, stdout=quiet, stderr=quiet
        ):
            compile_proposals()


def compile_proposals() -> None:
    """Call what makes proposals, and what grades them: they have most of their code in common."""
    model, execute, state = example()
    tables = tabulate_state(state, model)
    prior = condition_prior(state, model, generator(0, 0, 1))
    execute.evenness(state, tables, prior)
    execute.propose(state, tables, prior, 0, 0)


def compile_others() -> None:
    """Call every other kernel of a run."""
    model, execute, state = example()
    tables = tabulate_state(state, model)
    execute.count(state, tables, 0, 0)
    for field, pairs in find_doubtful(model, execute.layout, worthwhile=0.0).items():
        draw_jointly(state, model, field, pairs, execute, 0, 0, np.random.default_rng(0))


def example() -> tuple[Model, Serial, ChainState]:
    """A linkage of four records, with all the types that any other has."""
    table = pa.table({"one": ["a", "b", "b", "a"], "two": ["x", "x", "y", "y"]})
    model = Model(Records.from_frames(table, columns=["one", "two"]), ["one", "two"])
    layout = model.layout()
    return model, Serial(model, layout), start_state(model, layout, 0, 0)
