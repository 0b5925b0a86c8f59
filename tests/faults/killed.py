"""Kill a run at random moments, resume it each time, and compare its bytes with an untouched one.

A program of its own: it forks, which a test process with threads must not. Prints the number of
kills; exits with an error if any file differs.
"""

import os
import random
import shutil
import signal
import sys
import time
import warnings
from functools import partial
from pathlib import Path

import smered
from smered import run as run_module
from smered.simulate import simulate

KILLS = 50
LONGEST_LIFE = 0.25  # seconds


def arguments(seed):
    data = simulate({("a",): 60, ("b",): 60, ("a", "b"): 120}, [30, 20, 10], seed=1)
    return {"frames": data.tables, "fields": data.fields, "id": "id", "draws": 600,
            "burn_in": 50, "chains": 2, "thin": 2, "seed": seed, "threads": 2}  # fmt: skip


def in_child(work):
    """Run `work` in a forked process; return its number."""
    child = os.fork()
    if child == 0:
        try:
            work()
            os._exit(0)
        except BaseException as error:
            print(f"child: {error!r}", file=sys.stderr, flush=True)
            os._exit(1)
    return child


def contents(folder):
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for kind in ("lifetimes", "draws", "records")
        for path in sorted((folder / kind).iterdir())
    }


def finish(work):
    """Run `work` to its end in a process of its own."""
    _, status = os.waitpid(in_child(work), 0)
    assert status == 0, "a run failed"


def kill_until_done(start, resume, folder, chance, most):
    """Start a run, kill it, resume it, kill it, ...; return the number of kills."""
    kills = 0
    while kills < most:
        child = in_child(resume if (folder / "run.json").exists() else start)
        time.sleep(chance.uniform(0.0, LONGEST_LIFE))
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        if not os.WIFSIGNALED(status):
            assert status == 0, "a resumed run failed"
            return kills
        kills += 1
        if not (folder / "run.json").exists():
            shutil.rmtree(folder, ignore_errors=True)  # killed before there was a run
    finish(resume if (folder / "run.json").exists() else start)
    return kills


def main(folder):
    warnings.simplefilter("ignore")
    run_module.checkpoint_interval = lambda model: 7
    chance, kills, seed = random.Random(20140422), 0, 0
    while kills < KILLS:
        seed += 1
        whole, killed = folder / f"whole-{seed}", folder / f"killed-{seed}"
        data = arguments(seed)
        finish(partial(smered.link, **data, out=whole))
        start = partial(smered.link, **data, out=killed)
        resume = partial(smered.resume, killed, threads=chance.choice([1, 2]))
        kills += kill_until_done(start, resume, killed, chance, KILLS - kills)
        assert contents(whole) == contents(killed), f"seed {seed}: bytes differ"
    print(f"{kills} kills over {seed} runs")


if __name__ == "__main__":
    # compile before forking, in this process, without threads
    data = arguments(0) | {"draws": 1, "burn_in": 0, "chains": 1, "threads": 1}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        smered.link(**data)
    main(Path(sys.argv[1]))
