"""Whether intervals that carry the doubt about the linkage cover the truth.

`python -m benchmarks.coverage [--replicates N] [--out FOLDER]`, or `make coverage`. Three surveys
of a population of known size, and a regression of a variable in one on a variable in another, whose
slope is known; at three levels of distortion. Each replicate is linked afresh and analysed twice:
averaged over draws of the linkage, and as if the estimated linkage were certain. A third time with
the true links, which shows what the analysis itself can reach. Replicates that are done are kept in
FOLDER; writes docs/coverage.md and docs/coverage.json.
"""

import argparse
import json
import textwrap
import time
import warnings
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

import smered
from smered.evaluate.metrics import links
from smered.fields import Categorical
from smered.population.estimate import sizes_of
from smered.population.tables import overlap_array
from smered.posterior.traces import file_patterns
from smered.propagate import linear, pool

DOCS = Path(__file__).parent.parent / "docs"
PEOPLE, SLOPE, NOISE = 1000, 1.0, 1.0
CAUGHT = {"a": 0.5, "b": 0.5, "c": 0.4}  # chance of each person to be in each survey
LEVELS = {"sex": 2, "day": 31, "month": 12, "year": 60, "town": 30}
DISTORTION = {"low": 0.01, "moderate": 0.04, "high": 0.1}
SETTINGS = {"draws": 250, "burn_in": 250, "chains": 2, "threads": 1}
DRAWS = 200
FORMULA = "y ~ x"
WAYS = ("averaged", "estimate", "truth")
QUANTITIES = {
    "slope": "slope of y (survey b) on x (survey a)",
    "slope of every link": "the same, with every link",
    "chapman": "population, Chapman, a and b",
    "loglinear": "population, log-linear models",
    "graphs": "population, decomposable graphs",
    "chao": "population, Chao's lower bound",
}


def make_surveys(distortion: float, seed: int) -> tuple[dict[str, pa.Table], Any]:
    """The surveys as files, and the person of every record."""
    rng = np.random.default_rng([seed, round(1e6 * distortion)])
    theta = [shares(levels, rng) for levels in LEVELS.values()]
    people = np.stack([rng.choice(len(t), PEOPLE, p=t) for t in theta], axis=1).astype(np.int32)
    x = rng.normal(size=PEOPLE)
    other = {"a": ("x", x), "b": ("y", SLOPE * x + NOISE * rng.normal(size=PEOPLE))}
    rates = np.full(len(LEVELS), distortion)
    tables, truth = {}, []
    for name, chance in CAUGHT.items():
        caught = rng.permutation(np.flatnonzero(rng.random(PEOPLE) < chance))
        values, _ = smered.simulate.observe(people, caught, rates, theta, rng)
        columns = dict(zip(LEVELS, values.T, strict=True))
        if name in other:
            columns[other[name][0]] = other[name][1][caught]
        tables[name] = pa.table(columns)
        truth.append(caught)
    return tables, np.concatenate(truth)


def shares(levels: int, rng: np.random.Generator) -> Any:
    """Level probabilities: some values are common, others rare."""
    return rng.dirichlet(np.full(levels, 5.0))


def replicate(level: str, seed: int) -> dict[str, Any]:
    """Link and analyse one set of surveys: the intervals by quantity and way."""
    warnings.simplefilter("ignore")
    tables, truth = make_surveys(DISTORTION[level], seed)
    posterior = smered.link(
        tables,
        [Categorical(name, a=1, b=49) for name in LEVELS],
        duplicates=False,
        seed=seed,
        **SETTINGS,
    )
    estimate = posterior.estimate()
    found: dict[str, dict[str, tuple[float, float]]] = {name: {} for name in QUANTITIES}
    every = linear(FORMULA, min_probability=0.0)
    for quantity, regression in (("slope", linear(FORMULA)), ("slope of every link", every)):
        pooled = posterior.propagate(regression, DRAWS, progress=False, threads=1).pooled
        found[quantity]["averaged"] = (pooled.lower[1], pooled.upper[1])
        for way, table in (
            ("estimate", posterior.linked(estimate, columns=["x", "y", "match_probability"])),
            ("truth", true_table(tables, truth)),
        ):
            alone = pool([regression(table)])
            found[quantity][way] = (alone.lower[1], alone.upper[1])
    for way, sizes in population(posterior, truth).items():
        for method, interval in sizes.items():
            found[method][way] = interval
    scores = links(estimate.entity, truth)
    return {
        "level": level,
        "seed": seed,
        "precision": scores.precision,
        "recall": scores.recall,
        "intervals": found,
    }


def true_table(tables: dict[str, pa.Table], truth: Any) -> pa.Table:
    """What x and y are of everybody in both surveys, linked without error."""
    sizes = [len(table) for table in tables.values()]
    in_a, in_b = truth[: sizes[0]], truth[sizes[0] : sizes[0] + sizes[1]]
    _, one, two = np.intersect1d(in_a, in_b, return_indices=True)
    return pa.table({"x": tables["a"]["x"].take(one), "y": tables["b"]["y"].take(two)})


def population(posterior: smered.Posterior, truth: Any) -> dict[str, dict[str, Any]]:
    """Intervals of the population by way and method."""
    both = ("a", "b")
    found: dict[str, dict[str, Any]] = {way: {} for way in WAYS}
    for sizes in (
        posterior.population("chapman", files=both, draws=DRAWS).sizes,
        posterior.population(["loglinear", "graphs", "chao"], draws=DRAWS).sizes,
    ):
        for size in sizes:
            way = "estimate" if size.certain else "averaged"
            found[way][size.method] = (size.lower, size.upper)
    records = posterior.records
    order = np.argsort(truth, kind="stable")
    start = np.flatnonzero(np.append(True, np.diff(truth[order]) > 0))
    patterns, kind = file_patterns(order, np.append(start, len(order)), records.file, records.files)
    counts = np.bincount(kind, minlength=len(patterns))[:, None]
    for method in ("chapman", "loglinear", "graphs", "chao"):
        files = both if method == "chapman" else records.files
        table = {None: overlap_array(patterns, counts, files)}
        (size,) = sizes_of(method, files, table, 0, 0.95)
        found["truth"][method] = (size.lower, size.upper)
    return found


def covers(interval: tuple[float, float], quantity: str) -> bool:
    """Whether an interval holds the truth; a lower bound need only lie below it."""
    truth = SLOPE if "slope" in quantity else PEOPLE
    return interval[0] <= truth and (quantity == "chao" or truth <= interval[1])


def summarise(results: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Coverage and width by level of distortion, quantity and way."""
    rows = []
    for level, rate in DISTORTION.items():
        own = [result for result in results if result["level"] == level]
        if not own:
            continue
        for quantity in QUANTITIES:
            row: dict[str, Any] = {"level": level, "distortion": rate, "quantity": quantity}
            row["replicates"] = len(own)
            for way in WAYS:
                ends = [result["intervals"][quantity][way] for result in own]
                row[way] = float(np.mean([covers(each, quantity) for each in ends]))
                row[f"{way}_width"] = float(np.median([b - a for a, b in ends]))
                row[f"{way}_middle"] = float(np.median([(a + b) / 2 for a, b in ends]))
            for score in ("precision", "recall"):
                row[score] = float(np.mean([result[score] for result in own]))
            rows.append(row)
    return rows


def page(rows: list[dict[str, Any]]) -> str:
    """docs/coverage.md."""
    replicates = min(row["replicates"] for row in rows)
    least = 0.95 - 1.96 * (0.95 * 0.05 / replicates) ** 0.5
    introduction = f"""Written by `make coverage`. A population of {PEOPLE:,} people, each caught by
three surveys with probabilities {", ".join(f"{p:.0%}" for p in CAUGHT.values())}, independently;
five fields, every value distorted at the rate shown; y (in survey b) is {SLOPE:g} x + noise of the
same variance as x (in survey a). {replicates} replicates of each level, each linked afresh, with
rates Beta(1, 49) and the prior `ClusterSizes()`. How often do 95% intervals hold the
truth? *averaged*: over {DRAWS} draws of the linkage (`propagate`, `population`). *estimate*: as if
the estimated linkage were certain. *true links*: if it were known, which is as well as the
analysis can do. Widths are medians. The slope is that of entities whose records match with
probability .9 or more, the default of `smered.propagate.linear`. A lower bound covers if its lower
end does not exceed the truth. An interval that covers 95% of the time does so in {least:.0%} or
more of {replicates} replicates with
probability .975."""
    lines = ["# Coverage\n", textwrap.fill(introduction, 100) + "\n"]
    lines.append(findings(rows))
    for level, rate in DISTORTION.items():
        own = [row for row in rows if row["level"] == level]
        if not own:
            continue
        lines.append(
            f"## {level.capitalize()}: {rate:.0%} of values distorted\n\n"
            f"The estimated linkage has precision {own[0]['precision']:.3f} and recall "
            f"{own[0]['recall']:.3f}.\n\n"
            "| interval of the | averaged | estimate | true links | width averaged | "
            "width estimate | width true links |\n|---|---:|---:|---:|---:|---:|---:|"
        )
        for row in own:
            digits = ".3f" if "slope" in row["quantity"] else ",.0f"
            lines.append(
                f"| {QUANTITIES[row['quantity']]} | **{row['averaged']:.0%}** | "
                f"{row['estimate']:.0%} | {row['truth']:.0%} | "
                + " | ".join(f"{row[f'{way}_width']:{digits}}" for way in WAYS)
                + " |"
            )
        lines.append("")
    return "\n".join(lines)


def findings(rows: list[dict[str, Any]]) -> str:
    """What the tables say, in figures taken from them."""
    sizes = [row for row in rows if "slope" not in row["quantity"]]
    worst = {way: min(row[way] for row in sizes if row["level"] != "high") for way in WAYS}
    high = {
        way: " to ".join(f"{end(row[way] for row in sizes if row['level'] == 'high'):.0%}"
                         for end in (min, max))
        for way in WAYS
    }  # fmt: skip
    slope = {row["quantity"]: row for row in rows if row["level"] == "high"}
    sure, every = slope["slope"], slope["slope of every link"]
    texts = [
        "**Population.** Averaging over the linkage decides. At low and moderate distortion "
        f"intervals cover {worst['averaged']:.0%} or more, those that trust the estimate "
        f"{worst['estimate']:.0%} or more; at high distortion {high['averaged']} against "
        f"{high['estimate']}: some overlap is lost there even on average, and most of it in the "
        "estimate.",
        "**Slope.** Which links are used matters more than whether they are averaged over. With "
        "every link, false ones pull the slope towards zero: at high distortion "
        f"{every['averaged']:.0%} of intervals cover when averaged, and {every['estimate']:.0%} "
        "with the estimate, which has fewer false links than a draw. Of entities that match with "
        f"probability .9 or more it is {sure['averaged']:.0%} and {sure['estimate']:.0%}.",
    ]
    return "\n\n".join(textwrap.fill(text, 100) for text in texts) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--replicates", type=int, default=100)
    parser.add_argument("--out", type=Path, default=Path("coverage"))
    given = parser.parse_args()
    given.out.mkdir(exist_ok=True)
    kept = given.out / "replicates.jsonl"
    results = [json.loads(line) for line in kept.read_text().splitlines()] if kept.exists() else []
    done = {(result["level"], result["seed"]) for result in results}
    wanted = [(level, seed) for seed in range(given.replicates) for level in DISTORTION]
    begun = time.perf_counter()
    with (
        Progress(console=Console(stderr=True)) as bar,
        ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool_,
        kept.open("a") as sink,
    ):
        task = bar.add_task("replicates", total=len(wanted), completed=len(done & set(wanted)))
        waiting = [pool_.submit(replicate, *each) for each in wanted if each not in done]
        for future in as_completed(waiting):
            results.append(future.result())
            sink.write(json.dumps(results[-1]) + "\n")
            sink.flush()
            bar.advance(task)
    rows = summarise(results)
    table = Table("distortion", "interval of the", *WAYS, "precision", "recall")
    for row in rows:
        table.add_row(f"{row['distortion']:.0%}", QUANTITIES[row["quantity"]],
                      *(f"{row[way]:.0%}" for way in WAYS),
                      f"{row['precision']:.3f}", f"{row['recall']:.3f}")  # fmt: skip
    Console().print(table)
    Console().print(f"{time.perf_counter() - begun:,.0f} s")
    (DOCS / "coverage.json").write_text(json.dumps(rows, indent=2) + "\n")
    (DOCS / "coverage.md").write_text(page(rows))


if __name__ == "__main__":
    main()
