"""How fast the sampler is: proposals per second, time to the posterior, growth with n, memory."""

import os
import subprocess
import tempfile
import threading
import time
import venv
import warnings
from pathlib import Path

import numpy as np
import psutil

from benchmarks.data import blocked_model, survey_model
from benchmarks.table import Row
from smered.diagnostics import ess_bulk, mcse
from smered.execute import make_executor
from smered.pairs import InformedPairs, UniformPairs
from smered.run import sample
from smered.sampler import Settings, run_chain

STAY = 20  # sweeps
SIZES = (10_000, 100_000, 1_000_000, 10_000_000)


def sweeps(model, proposals, count, *, threads=1, chain=0, burn_in=0):
    """Run sweeps; return N after each and the seconds of each, from the end of the burn-in on."""
    steps, seconds = follow(model, proposals, count, threads, chain, burn_in, burn_in)
    return np.array([step["N"] for step in steps], float), seconds


def follow(model, proposals, count, threads, chain, burn_in, skip, look=lambda step: None):
    """Run a chain; return N and the distortion rates of each sweep after some, and its seconds.

    `look` is shown every step, outside the time that is taken.
    """
    execute = make_executor(model, model.layout(proposals), threads)
    settings = Settings(draws=count, burn_in=burn_in, chains=1, proposals=proposals)
    free = [(i, part.name) for i, part in enumerate(model.coded) if not part.exact]
    found, seconds, since = [], [], time.perf_counter()
    for step in run_chain(model, settings, chain, execute):
        seconds.append(time.perf_counter() - since)
        rates = {f"beta[{name}]": float(step.state.beta[0, i]) for i, name in free}
        found.append({"N": step.state.entities} | rates)
        look(step)
        since = time.perf_counter()
    execute.close()
    return found[skip:], np.array(seconds[skip:])


def proposals_per_second():
    model = survey_model()
    sweeps(model, 1000, 2)  # compile
    rows = []
    n = len(model.records)
    for pairs, per_sweep, target in ((UniformPairs(), 5_000_000, 10), (InformedPairs(), 4 * n, 3)):
        _, seconds = sweeps(model.with_pairs(pairs), per_sweep, 40 if per_sweep < 10**6 else 6)
        rate = per_sweep / np.sort(seconds)[: len(seconds) // 2].mean() / 1e6
        name = type(pairs).__name__.replace("Pairs", "").lower()
        rows.append(Row(f"survey: {name} proposals", rate, "million/s", f">= {target}"))
    return rows


def time_to_posterior():
    """Seconds until N comes within 3 s.d. of its final mean and stays there for 20 sweeps."""
    model = survey_model()
    sweeps(model, 1000, 2)
    rows = []
    for chain, start in ((0, "equal records linked"), (1, "no links")):
        entities, seconds = sweeps(model, None, 400, chain=chain)
        settled = entities[200:]
        outside = np.abs(entities - settled.mean()) > 3 * settled.std()
        kept = np.lib.stride_tricks.sliding_window_view(~outside, STAY).all(axis=1)
        first = int(np.flatnonzero(kept)[0])
        name = f"survey: at its posterior, start: {start}"
        rows.append(Row(name, seconds[: first + 1].sum(), "s", "< 3"))
    return rows


def growth():
    """Cost of a sweep per record, blocks alike, from ten thousand records to ten million."""
    costs = {}
    for n in SIZES:
        model = blocked_model(n)
        count = {10_000_000: 6, 1_000_000: 12}.get(n, 60)
        _, seconds = sweeps(model, None, count)
        costs[n] = np.sort(seconds)[: max(len(seconds) // 2, 1)].mean() / n
    rows = [Row(growth_row(n), c * 1e6, "us", "") for n, c in costs.items()]
    ratio = costs[10_000_000] / costs[10_000]
    return [*rows, Row("n = 10,000,000 against 10,000", ratio, "times", "<= 1.3")]


def growth_row(n):
    return f"n = {n:,}: a sweep, per record"


def memory():
    """Bytes per record beyond the coded data, at the highest moment of layout and sampling."""
    sweeps(blocked_model(20_000), None, 2)  # compile and warm up
    n = 1_000_000
    model = blocked_model(n)
    assert model.coded  # the coded data
    process = psutil.Process()
    before = process.memory_info().rss
    highest, done = [before], threading.Event()

    def watch():
        while not done.wait(0.005):
            highest[0] = max(highest[0], process.memory_info().rss)

    watcher = threading.Thread(target=watch)
    watcher.start()
    sweeps(model, None, 3)
    done.set()
    watcher.join()
    return [
        Row("memory beyond the coded data", (highest[0] - before) / n, "bytes/record", "<= 200")
    ]


def threads():
    """Two threads against one on the survey."""
    model = survey_model()
    sweeps(model, 1000, 2)
    rows = []
    for name, burn_in in (("burn-in", 0), ("tuned", 60)):
        best = {}
        for t in (1, 2) * 4:
            _, seconds = sweeps(model, None, 60, threads=t, burn_in=burn_in)
            usual = np.sort(seconds)[:30].mean()
            best[t] = min(best.get(t, np.inf), usual)
        ratio = best[1] / best[2]
        rows.append(Row(f"survey: two threads against one, {name}", ratio, "times", ""))
    seconds = {}
    for t in (1, 2) * 2:
        started = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            sample(model, draws=100, burn_in=100, chains=2, threads=t)
        seconds[t] = min(seconds.get(t, np.inf), time.perf_counter() - started)
    name = "survey: two threads against one, a run of two chains"
    return [*rows, Row(name, seconds[1] / seconds[2], "times", ">= 1.7")]


def cold_start():
    """A small linkage in a new installation, before and after its kernels were compiled."""
    code = (
        "import smered, warnings; warnings.simplefilter('ignore');"
        "data = smered.simulate.simulate({('a',): 20, ('a', 'b'): 30}, [9, 8, 7], seed=3);"
        "smered.link(data.tables, data.fields, id='id', draws=5, burn_in=5, chains=1)"
    )
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        python = Path(folder) / "bin" / "python"
        project = Path(__file__).parents[1]
        subprocess.run([python, "-m", "pip", "install", "--quiet", project], check=True)
        environment = os.environ | {"PYTHONDONTWRITEBYTECODE": ""}

        def timed():
            started = time.perf_counter()
            subprocess.run([python, "-c", code], env=environment, cwd=folder, check=True)
            return time.perf_counter() - started

        rows.append(Row("a small linkage, first ever run of a process", timed(), "s", "< 20"))
        best = min(timed() for _ in range(3))
        rows.append(Row("a small linkage, later runs (best of three)", best, "s", "< 2"))
    return rows


def agreement():
    """Uniform and informed pairs give the same posterior mean of N; one of them sooner."""
    model = survey_model()
    informed = sweeps(model, None, 1500, burn_in=200)
    uniform = sweeps(model.with_pairs(UniformPairs()), 40_000_000, 110)
    rows, means, worth = [], [], []
    for name, draws, seconds in (
        ("informed", *informed),
        ("uniform", *(each[30:] for each in uniform)),
    ):
        error = mcse(draws[None])
        means.append((draws.mean(), error))
        worth.append(ess_bulk(draws[None]) / seconds[-len(draws) :].sum())
        rows.append(
            Row(f"survey: mean of N, {name} pairs (error {error:.1f})", draws.mean(), "", "")
        )
    distance = abs(means[0][0] - means[1][0]) / np.hypot(means[0][1], means[1][1])
    rows.append(Row("survey: their difference", distance, "standard errors", "< 3"))
    name = "survey: effective draws of N, informed against uniform pairs"
    return [*rows, Row(name, worth[0] / worth[1], "times", "")]
