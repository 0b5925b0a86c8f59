"""A Ray run beside one on threads: wall time, and the memory of the driver."""

import json
import resource
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

from benchmarks.data import blocked_model
from benchmarks.table import Row
from smered.execute.on_ray import RayCluster
from smered.run import Here, checkpoint_interval, run_chains
from smered.sampler import Settings
from smered.store.folder import RunFolder

SIZES = (100_000, 1_000_000)
SETTINGS = Settings(draws=60, burn_in=60, chains=1, threads=2)
WORKERS = 2


def on_ray():
    rows, memory = [], {}
    with tempfile.TemporaryDirectory() as folder:
        for n in SIZES:
            whole = Path(folder) / f"{n}"
            make_run(whole, n)
            found = {}
            for where in ("threads", "ray"):
                copy = shutil.copytree(whole, f"{whole}-{where}")
                found[where] = in_fresh_process(where, copy)
            seconds = {where: measured["seconds"] for where, measured in found.items()}
            rows.append(Row(f"{n:,} records on 2 threads: a run", seconds["threads"], "s", ""))
            rows.append(Row(f"{n:,} records on 2 Ray workers: a run", seconds["ray"], "s", ""))
            ratio = seconds["ray"] / seconds["threads"]
            target = "<= 1.25" if n == SIZES[-1] else ""
            rows.append(Row(f"{n:,} records: Ray against threads", ratio, "times", target))
            memory[n] = found["ray"]["megabytes"]
            rows.append(Row(f"{n:,} records on Ray: memory of the driver", memory[n], "MB", ""))
    ratio = memory[SIZES[1]] / memory[SIZES[0]]
    name = f"memory of the driver, {SIZES[1]:,} against {SIZES[0]:,} records"
    return [*rows, Row(name, ratio, "times", "<= 1.1")]


def make_run(folder, records):
    """A run folder that nothing ran in yet."""
    model = blocked_model(records)
    RunFolder.create(folder, model, SETTINGS, checkpoint_interval(model), parts=4).unlock()


def in_fresh_process(where, folder):
    command = [sys.executable, "-m", "benchmarks.cluster", where, folder]
    return json.loads(subprocess.run(command, capture_output=True, check=True).stdout)


def run(where, folder):
    """Run a folder to its end, from opening it on."""
    warnings.simplefilter("ignore")
    started = time.perf_counter()
    opened = RunFolder.open(Path(folder))
    opened.lock()
    if where == "threads":
        place = Here(opened, opened.model(), SETTINGS)
    else:
        cluster = RayCluster(workers=WORKERS)
        cluster.connect()
        place = cluster.seats(opened, SETTINGS)
    run_chains(opened, SETTINGS, None, place)
    seconds = time.perf_counter() - started
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000
    print(json.dumps({"seconds": seconds, "megabytes": peak}))


if __name__ == "__main__":
    run(*sys.argv[1:])
