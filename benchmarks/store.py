"""What a stored posterior costs: the survey with 4 chains of 1,000 draws."""

import resource
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

from benchmarks.data import survey_model
from benchmarks.table import Row
from smered.posterior import Posterior
from smered.run import sample


def stored_survey():
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        run = Path(folder) / "run"
        started = time.perf_counter()
        sample(survey_model(), out=run, draws=1000, burn_in=200, chains=4, threads=2)
        seconds = time.perf_counter() - started
        size = sum(path.stat().st_size for path in run.rglob("*") if path.is_file())
        # best of several fresh processes: the first also waits for the disk
        answers = [in_fresh_process(run) for _ in range(TRIES)]
        reported = report(run)
    rows = [
        Row("survey, 4 x 1,000 draws: sampling, 2 threads", seconds, "s", ""),
        Row("survey, 4 x 1,000 draws: store", size / 1e6, "MB", "< 150"),
    ]
    for each in zip(*answers, strict=True):
        name, _, unit, target = each[0]
        rows.append(Row(name, min(float(figure) for _, figure, _, _ in each), unit, target))
    return rows + reported


def report(run):
    """Write the report of a run with its truth, and open it in Chromium where there is one."""
    page = run / "report.html"
    command = [Path(sys.executable).parent / "smered", "report", run, "--truth", "entity"]
    seconds = []
    for _ in range(2):
        started = time.perf_counter()
        subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
        seconds.append(time.perf_counter() - started)
    rows = [
        Row("survey, 4 x 1,000 draws: report", min(seconds), "s", "< 15"),
        Row("survey: the report's size", page.stat().st_size / 1e6, "MB", "< 5"),
    ]
    browser = shutil.which("chromium")
    if browser is None:
        return rows
    from playwright.sync_api import sync_playwright

    opened = []
    with sync_playwright() as play:
        program = play.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        for _ in range(TRIES):
            tab = program.new_page()
            started = time.perf_counter()
            tab.goto(page.as_uri())
            tab.wait_for_selector(".card")
            opened.append(time.perf_counter() - started)
            tab.close()
        program.close()
    return [*rows, Row("survey: the report opens in Chromium", min(opened), "s", "< 2")]


def in_fresh_process(run):
    """Ask all questions in a process of its own; a list of (name, figure, unit, target)."""
    command = [sys.executable, "-m", "benchmarks.store", str(run)]
    output = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    return [line.split("\t") for line in output.strip().split("\n")]


TRIES = 3
QUESTIONS = {
    "entities": (lambda p: p.entities(), 0.2),
    "overlap": (lambda p: p.overlap(), 0.2),
    "matching_sets(record)": (lambda p: p.matching_sets(("1982", 100)), 0.2),
    "pairs(0.01)": (lambda p: p.pairs(0.01), 5),
    "estimate: mpmms": (lambda p: p.estimate(), 5),
    "estimate: binder": (lambda p: p.estimate("binder"), None),
    "estimate: vi": (lambda p: p.estimate("vi"), None),
    "canonical": (lambda p: p.canonical(), None),
    "diagnostics": (lambda p: p.diagnostics(), None),
}


def ask(run):
    """Open a run and answer every question, in a fresh process."""
    started = time.perf_counter()
    posterior = Posterior.open(run)
    posterior.lifetimes  # noqa: B018
    print(f"posterior: open\t{time.perf_counter() - started}\ts\t< 1")
    for name, (question, target) in QUESTIONS.items():
        started = time.perf_counter()
        question(posterior)
        bound = "" if target is None else f"< {target}"
        print(f"posterior: {name}\t{time.perf_counter() - started}\ts\t{bound}")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    print(f"posterior: peak memory\t{peak}\tMB\t< 2000")


if __name__ == "__main__":
    ask(sys.argv[1])
