"""Whether intervals of N and of overlap counts hold the truth, where everything is found by itself.

`python -m benchmarks.surveys [PART ...] [--out FOLDER]`: surveys of people who move (`moving`),
surveys that hold people twice (`duplicates`), and the files of `smered example` (`example`), each
set up as `smered init` does. Replicates that are done are kept in FOLDER; writes docs/surveys.md.
"""

import argparse
import json
import tempfile
import time
import warnings
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pcsv

from smered.config import Configuration, make_model, merge
from smered.evaluate.metrics import links
from smered.example import write_example
from smered.guess import guess
from smered.posterior.traces import file_patterns
from smered.run import sample
from smered.simulate import survey
from smered.sources import read_sources

DOCS = Path(__file__).parent.parent / "docs"
SHARE = 0.08  # of the survey's people
REPLICATES = {"moving": 20, "duplicates": 20, "example": 40}
SETTINGS = {"draws": 500, "burn_in": 200, "chains": 2, "threads": 1}
FILES = ("clinic", "register", "survey")


def cases(part: str) -> Iterator[dict[str, Any]]:
    """Everything that is to be linked."""
    for seed in range(REPLICATES[part]):
        if part == "moving":
            for moving, distortion in product((0.0, 0.03, 0.1), (0.01, 0.04)):
                yield {"part": part, "seed": seed, "moving": moving, "distortion": distortion}
        elif part == "duplicates":
            for distortion in (0.01, 0.04):
                yield {"part": part, "seed": seed, "moving": 0.0, "distortion": distortion}
        else:
            yield {"part": part, "seed": seed}


def write_files(case: dict[str, Any], folder: Path) -> list[Path]:
    """Write the files of a case."""
    if case["part"] == "example":
        return write_example(folder, case["seed"])
    made = survey(
        case["seed"],
        share=SHARE,
        distortion=case["distortion"],
        moving=case["moving"],
        right=("sex", "year"),
        twins=1.0,
    )
    paths = []
    rng = np.random.default_rng([case["seed"], 9])
    for name, table in made.tables.items():
        if case["part"] == "duplicates":  # a tenth of the rows once more, with errors of their own
            again = table.take(rng.choice(len(table), len(table) // 10, replace=False))
            for field in ("day", "month"):
                values = again[field].to_numpy().copy()
                wrong = rng.random(len(values)) < case["distortion"]
                values[wrong] = rng.permutation(values)[wrong]
                again = again.set_column(
                    again.column_names.index(field), field, pa.array(values, table[field].type)
                )
            table = pa.concat_tables([table, again])
            table = table.set_column(0, "id", pa.array(np.arange(1, len(table) + 1)))
        path = folder / f"{name}.csv"
        pcsv.write_csv(table, path)
        paths.append(path)
    return paths


def replicate(case: dict[str, Any]) -> dict[str, Any]:
    """Set one case up, link it, and compare with the truth."""
    warnings.simplefilter("ignore")
    started = time.perf_counter()
    with tempfile.TemporaryDirectory() as name:
        paths = [str(path) for path in write_files(case, Path(name))]
        data: dict[str, Any] = {"files": paths, "blocks": None}
        if case["part"] != "example":
            data["blocks"] = ["sex", "year"]  # of a survey too small for init to want blocks
        if case["part"] != "duplicates":
            data["duplicates"] = False
        given = merge(Configuration(), {"data": data})
        sources = read_sources(paths)
        found, _ = guess(given, sources, Path(name))
        model = make_model(found, sources)
        posterior = sample(model, seed=case["seed"], **SETTINGS)
    tables = [source.table for source in sources.values()]
    column = found.data.truth
    truth = np.unique(
        np.concatenate([table[column].to_numpy() for table in tables]), return_inverse=True
    )[1]
    order = np.argsort(truth, kind="stable")
    start = np.flatnonzero(np.append(True, np.diff(truth[order]) > 0))
    records = posterior.records
    kinds, kind = file_patterns(order, np.append(start, len(order)), records.file, records.files)
    counts = dict(zip(kinds, np.bincount(kind, minlength=len(kinds)).tolist(), strict=True))
    overlap, entities = posterior.overlap(), posterior.entities()
    every = {kind for kind in (*kinds, *overlap.kinds) if kind}
    held = {" + ".join(k): bool(overlap[k].lower <= counts.get(k, 0) <= overlap[k].upper)
            for k in every}  # fmt: skip
    scores = links(posterior.estimate().entity, truth)
    return case | {
        "entities": [entities.mean, entities.lower, entities.upper, len(start)],
        "holds": bool(entities.lower <= len(start) <= entities.upper),
        "overlap": held,
        "precision": scores.precision,
        "recall": scores.recall,
        "fields": list(found.fields),
        "rhat": max(r["rhat"] for r in posterior.diagnostics().table.to_pylist() if r["sd"] > 0),
        "seconds": time.perf_counter() - started,
    }


def summarise(results: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Coverage by part and setting."""
    rows = []
    keys = sorted({(r["part"], r.get("moving", 0.0), r.get("distortion", 0.02)) for r in results})
    for part, moving, distortion in keys:
        own = [
            r for r in results
            if (r["part"], r.get("moving", 0.0), r.get("distortion", 0.02))
            == (part, moving, distortion)
        ]  # fmt: skip
        every = [held for r in own for held in r["overlap"].values()]
        errors = [r["entities"][0] / r["entities"][3] - 1 for r in own]
        rows.append({
            "part": part, "moving": moving, "distortion": distortion, "replicates": len(own),
            "entities": float(np.mean([r["holds"] for r in own])),
            "overlap": float(np.mean(every)),
            "error": float(np.mean(errors)),
            "precision": float(np.mean([r["precision"] for r in own])),
            "recall": float(np.mean([r["recall"] for r in own])),
        })  # fmt: skip
    return rows


def page(rows: list[dict[str, Any]]) -> str:
    """docs/surveys.md."""
    lines = [
        "# Surveys: do the intervals hold?",
        "",
        "Written by `make coverage` (`python -m benchmarks.surveys`). Everything is set up as "
        "`smered init` does, without the truth; 95% intervals of the number of people and of every "
        "overlap count are then compared with it.",
        "",
        f"*moving*: three waves of {round(34945 * SHARE):,} people, each in the waves that the "
        "paper's survey has; a share of them moves from each wave to the next; values are wrong at "
        "the rate shown, but for sex and year of birth, which make blocks. *duplicates*: the "
        "same, nobody moves, and a tenth of each wave's rows stand there twice. *example*: the "
        "files of `smered example`, 300 people, no blocks, every value wrong at 2%, missing at 1%.",
        "",
        "| part | moving | wrong | replicates | N inside | overlap counts inside | N, mean error | "
        "precision | recall |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    lines += [
        f"| {row['part']} | {row['moving']:.0%} | {row['distortion']:.0%} | {row['replicates']} | "
        f"{row['entities']:.0%} | {row['overlap']:.0%} | {row['error']:+.2%} | "
        f"{row['precision']:.3f} | {row['recall']:.3f} |"
        for row in rows
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", default=list(REPLICATES))
    parser.add_argument("--out", type=Path, default=Path("coverage"))
    parser.add_argument("--replicates", type=int)
    given = parser.parse_args()
    if given.replicates:
        REPLICATES.update(dict.fromkeys(REPLICATES, given.replicates))
    given.out.mkdir(exist_ok=True)
    kept = given.out / "surveys.jsonl"
    results = [json.loads(line) for line in kept.read_text().splitlines()] if kept.exists() else []
    name = ("part", "seed", "moving", "distortion")
    done = {tuple(result.get(key) for key in name) for result in results}
    wanted = [case for part in given.parts for case in cases(part)]
    waiting = [case for case in wanted if tuple(case.get(key) for key in name) not in done]
    with (
        ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool,
        kept.open("a") as sink,
    ):
        for future in as_completed([pool.submit(replicate, case) for case in waiting]):
            results.append(future.result())
            sink.write(json.dumps(results[-1]) + "\n")
            sink.flush()
    rows = summarise(results)
    print(page(rows))
    (DOCS / "surveys.json").write_text(json.dumps(rows, indent=2) + "\n")
    (DOCS / "surveys.md").write_text(page(rows))


if __name__ == "__main__":
    main()
