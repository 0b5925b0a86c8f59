"""Ray runs beside runs on threads: wall time, what moves, and the memory of the driver."""

import json
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import pyarrow.parquet as pq

import smered
from benchmarks.data import LEVELS, blocked_table
from benchmarks.table import Row
from smered.execute.on_ray import RayCluster
from smered.pairs import RotatingBlocks

SIZES = (100_000, 1_000_000)
ROTATING = 1_000_000
WORKERS = 2
SAMPLING = {"draws": 60, "burn_in": 60, "chains": 1, "threads": 2, "parts": 4}


def on_ray():
    rows, memory = [], {}
    with tempfile.TemporaryDirectory() as folder:
        for n in SIZES:
            places = write_tables(Path(folder), n)
            found = {where: in_fresh_process(where, places) for where in ("threads", "ray")}
            rows += compare(f"{n:,} records", found, "<= 1.25" if n == SIZES[-1] else "")
            memory[n] = found["ray"]["megabytes"]
            rows.append(Row(f"{n:,} records on Ray: memory of the driver", memory[n], "MB", ""))
        ratio = memory[SIZES[1]] / memory[SIZES[0]]
        name = f"memory of the driver, {SIZES[1]:,} against {SIZES[0]:,} records"
        rows.append(Row(name, ratio, "times", "<= 1.1"))
        places = write_tables(Path(folder), ROTATING)
        found = {where: in_fresh_process(where, places, "rotating") for where in ("threads", "ray")}
        rows += compare(f"{ROTATING:,} records, rotating blocks", found, "")
        moved = found["ray"]["moved"] / ROTATING
        rows.append(Row("rotating blocks: moved per record and sweep", moved, "bytes", ""))
    return rows


def compare(what, found, target):
    """Wall times, after the tables were coded, and their ratio."""
    threads, ray = found["threads"], found["ray"]
    names = {"threads": f"{WORKERS} threads", "ray": f"{WORKERS} Ray workers"}
    rows = []
    for where, one in found.items():
        rows.append(Row(f"{what} on {names[where]}: to the first sweep", one["first"], "s", ""))
        rows.append(Row(f"{what} on {names[where]}: a sweep", one["sweep"], "s", ""))
        rows.append(Row(f"{what} on {names[where]}: a run", one["seconds"], "s", ""))
    ratio = ray["seconds"] / threads["seconds"]
    return [*rows, Row(f"{what}: a run, Ray against threads", ratio, "times", target)]


def write_tables(folder, records):
    places = []
    for name, table in blocked_table(records).items():
        places.append(str(folder / f"{name}-{records}.parquet"))
        pq.write_table(table, places[-1], row_group_size=125_000)
    return places


def in_fresh_process(where, places, kind="blocks"):
    command = [sys.executable, "-m", "benchmarks.cluster", where, kind, *places]
    output = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True).stdout
    return json.loads(output.splitlines()[-1])


def run(where, kind, *places):
    """Link from Parquet to the end of the run, without asking the posterior anything."""
    warnings.simplefilter("ignore")
    how = {"blocks": "block", "fields": [*LEVELS]}
    if kind == "rotating":
        how = {"pairs": RotatingBlocks(), "fields": ["block", *LEVELS]}
    execute = RayCluster(workers=WORKERS) if where == "ray" else "threads"
    moved = count_moved() if where == "ray" and kind == "rotating" else [0]
    tables, stamps = dict(zip("ab", places, strict=True)), []
    how |= {"duplicates": False, "observe": lambda _: stamps.append(time.perf_counter())}
    with tempfile.TemporaryDirectory() as folder:
        started = time.perf_counter()
        smered.link(tables, out=Path(folder) / "run", execute=execute, **how, **SAMPLING)
        seconds = time.perf_counter() - started
    sweep = (stamps[-1] - stamps[0]) / (len(stamps) - 1)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000
    found = {"seconds": seconds, "first": stamps[0] - started, "sweep": sweep, "megabytes": peak}
    print(json.dumps(found | {"moved": moved[0]}))


def count_moved():
    """Count the bytes that workers give each other in one sweep, the first."""
    import ray
    from smered.execute.on_ray.executor import RotatingOnRay

    exchange, moved = RotatingOnRay._exchange, [0]

    def counted(self, give, given, take, taken):
        if give == "give_rotated" and moved[0] == 0:
            n = len(self._workers)
            pieces = [getattr(w, give).options(num_returns=n).remote(*given) for w in self._workers]
            moved[0] = sum(
                array.nbytes for own in pieces for piece in ray.get(own) for array in piece
            )
        return exchange(self, give, given, take, taken)

    RotatingOnRay._exchange = counted
    return moved


if __name__ == "__main__":
    run(*sys.argv[1:])
