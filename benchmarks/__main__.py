"""Run the benchmarks and print one table: `python -m benchmarks [NAME ...]`.

Figures go to docs/benchmarks.json and, as a page, to docs/benchmarks.md. Timings depend on the
machine and on what else it does.
"""

import json
import platform
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from benchmarks import after, cluster, files, mixing, names, parts, scale, speed, store
from benchmarks.table import Row

DOCS = Path(__file__).parent.parent / "docs"
RESULTS, PAGE = DOCS / "benchmarks.json", DOCS / "benchmarks.md"
FIGURE = DOCS / "images" / "growth.svg"
BENCHMARKS = {
    "proposals": speed.proposals_per_second,
    "posterior": speed.time_to_posterior,
    "parts": parts.parts,
    "mixing": mixing.mixing,
    "rotating": mixing.rotating,
    "names": names.names,
    "start": speed.cold_start,
    "threads": speed.threads,
    "growth": speed.growth,
    "memory": speed.memory,
    "store": store.stored_survey,
    "files": files.plan_of_a_large_file,
    "metrics": files.metrics_of_many_labels,
    "after": after.propagated,
    "agreement": speed.agreement,
    "ray": cluster.on_ray,
    "scale": scale.ten_million,
}


def in_fresh_process(name: str) -> list[Row]:
    """Each benchmark starts from nothing, so that none leaves memory to the next."""
    command = [sys.executable, "-m", "benchmarks", "--json", name]
    output = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    return [Row(**row) for row in json.loads(output)]


def main(chosen: list[str]) -> None:
    if chosen[:1] == ["--json"]:
        print(json.dumps([asdict(row) for row in BENCHMARKS[chosen[1]]()]))
        return
    console = Console(width=110)
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    table = Table("benchmark", "figure", "unit", "should be", "kept")
    for name in chosen or BENCHMARKS:
        console.print(f"{name} ...", style="dim")
        rows = in_fresh_process(name)
        results[name] = {
            "machine": f"{platform.machine()}, {platform.python_version()}",
            "rows": [asdict(row) for row in rows],
        }
        for row in rows:
            kept = {True: "yes", False: "NO", None: ""}[row.kept]
            table.add_row(escape(row.name), row.shown, row.unit, row.target, kept)
    RESULTS.write_text(json.dumps(results, indent=2) + "\n")
    write_page(results)
    console.print(table)


def write_page(results: dict[str, dict[str, Any]]) -> None:
    """Write the page that shows the latest figures of every benchmark."""
    lines = [
        "# Benchmarks",
        "",
        "Written by `make bench`; figures of one core unless said otherwise. The survey is",
        "`smered.simulate.survey()`: 57,077 records, blocks sex and year of birth. A sweep makes",
        "proposals (four per record in the burn-in, about 0.9 after it), and redraws true values,",
        "distortions and parameters. A draw is a sweep; effective draws are those of the bulk",
        "(rank-normalised), after a burn-in of 300 sweeps, in a single chain.",
        "",
        "Where the time of a sweep goes is in the rows *part of a sweep*; a proposal's random",
        "numbers are timed by themselves. A block's records, candidates and clusters fit in the",
        "second-level cache; what is left of a proposal is choosing, weighing and linking.",
        "",
        "| figure | measured | | should be |",
        "|---|---:|---|---|",
    ]
    for name in BENCHMARKS:
        for row in (Row(**row) for row in results.get(name, {"rows": []})["rows"]):
            lines.append(f"| {row.name} | {row.shown} | {row.unit} | {row.target} |")
    if plot_growth(results):
        lines += ["", f"![A sweep's time grows with the records]({FIGURE.relative_to(DOCS)})"]
    PAGE.write_text("\n".join(lines) + "\n")


def plot_growth(results: dict[str, dict[str, Any]]) -> bool:
    """Draw the time of a sweep against the number of records, if it was measured."""
    import matplotlib.pyplot as plt

    rows = {row["name"]: row["value"] for row in results.get("growth", {"rows": []})["rows"]}
    names = [speed.growth_row(n) for n in speed.SIZES]
    if not set(names) <= set(rows):
        return False
    seconds = [n * rows[name] * 1e-6 for n, name in zip(speed.SIZES, names, strict=True)]
    linear = [seconds[0] * n / speed.SIZES[0] for n in speed.SIZES]
    figure, axes = plt.subplots(figsize=(6, 3.6), layout="constrained")
    axes.loglog(speed.SIZES, linear, color="0.7", linestyle="--", label="in proportion to records")
    axes.loglog(speed.SIZES, seconds, marker="o", label="measured")
    axes.set(xlabel="records", ylabel="seconds per sweep, one core")
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    FIGURE.parent.mkdir(exist_ok=True)
    figure.savefig(FIGURE)
    return True


if __name__ == "__main__":
    main(sys.argv[1:])
