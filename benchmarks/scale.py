"""Ten million records from Parquet to lifetimes, in bounded memory: 4 files, 8 fields, blocks."""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.table import Row

RECORDS, FILES = 10_000_000, 4
BURN_IN, DRAWS, THIN = 20, 8, 10  # 100 sweeps
LEVELS = {"region": 1000, "sex": 2, "day": 31, "month": 12, "year": 80, "job": 300, "town": 5000,
          "school": 40}  # fmt: skip


def write_files(folder, records):
    """Each person is in each file with probability .4; 1% of the values are wrong, 1% missing."""
    rng = np.random.default_rng(0)
    people = records * 10 // (4 * FILES)
    truth = {name: rng.integers(0, size, people, dtype=np.int32) for name, size in LEVELS.items()}
    for number in range(FILES):
        held = np.flatnonzero(rng.random(people) < 0.4)[: records // FILES]
        columns = {"id": np.arange(len(held), dtype=np.int32), "person": held.astype(np.int32)}
        for name, size in LEVELS.items():
            values = truth[name][held]
            if name != "region":
                wrong = np.flatnonzero(rng.random(len(held)) < 0.01)
                values[wrong] = rng.integers(0, size, len(wrong))
            missing = rng.random(len(held)) < (0.0 if name == "region" else 0.01)
            columns[name] = pa.array(values, mask=missing)
        pq.write_table(pa.table(columns), Path(folder) / f"file{number}.parquet")


def ten_million():
    with tempfile.TemporaryDirectory() as folder:
        write_files(folder, RECORDS)
        started = time.perf_counter()
        process = subprocess.Popen([sys.executable, "-m", "benchmarks.scale", folder],
                                   stdout=subprocess.PIPE, text=True)  # fmt: skip
        output = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        assert status == 0
        whole = time.perf_counter() - started
        size = sum(p.stat().st_size for p in (Path(folder) / "run").rglob("*") if p.is_file())
    sampling = float(output.split()[-1])
    return [
        Row("10,000,000 records, 2 threads: 100 sweeps", sampling / 60, "min", "< 15"),
        Row("10,000,000 records: from Parquet to the end of the run", whole / 60, "min", ""),
        Row("10,000,000 records: peak memory", usage.ru_maxrss / 1e6, "GB", "< 8"),
        Row("10,000,000 records: run folder, 8 draws", size / 1e9, "GB", ""),
    ]


def run(folder):
    from smered import Model, Records
    from smered.run import sample
    from smered.sources import read_sources

    places = [str(Path(folder) / f"file{number}.parquet") for number in range(FILES)]
    tables = {name: source.table for name, source in read_sources(places).items()}
    records = Records.from_frames(tables, columns=list(LEVELS), id="id", blocks=["region"])
    del tables
    model = Model(records, list(LEVELS), duplicates=False)
    started = []

    def observe(step):
        if not started:
            started.append(time.perf_counter())
        print(step.state.sweep, step.state.entities, time.perf_counter() - started[0],
              file=sys.stderr, flush=True)  # fmt: skip

    settings = {"draws": DRAWS, "burn_in": BURN_IN, "thin": THIN, "chains": 1, "threads": 2}
    began = time.perf_counter()
    sample(model, out=Path(folder) / "run", observe=observe, **settings)
    print(time.perf_counter() - began)


if __name__ == "__main__":
    run(sys.argv[1])
