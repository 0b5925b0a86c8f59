"""How accurate and how honest: public files with truth, beside exact matching and Splink.

`python -m benchmarks.accuracy FOLDER [NAME ...]`, or `make accuracy`. Every file is read by one
recipe, that of `smered init`, which never looks at the truth; all it is told besides is what is
known of the files: which hold nobody twice, and the column of blocks. The estimate is the one with
the largest expected F1. Prints a table and writes
docs/accuracy.md, docs/accuracy.json and a figure of reliability.
"""

import json
import sys
import time
import warnings
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

import smered
from benchmarks.splink_peer import splink_pairs
from smered.config import make_model
from smered.config.schema import Configuration, merge
from smered.evaluate import evaluate
from smered.evaluate.metrics import links, reliability
from smered.guess import guess
from smered.model import Model
from smered.records import number_rows
from smered.sources import read_sources

DOCS = Path(__file__).parent.parent / "docs"
SETTINGS = {"draws": 1000, "burn_in": 400, "chains": 4, "threads": 2, "seed": 1}
TRUTH = "ent_id"
INTRODUCTION = """# Accuracy

Written by `make accuracy`. Public files with truth, each set up as `smered init` sets it up, which
never looks at the truth: types of fields guessed from their values, no column that follows from
another, the prior `cluster-sizes`, rates Beta(1, 49). Told besides is what is known of the files:
that `febrl4`, `no_dup_data` and `italy` hold nobody twice in a file, and that `italy` is linked
within regions. 4 chains of 1,000 draws; the estimate is the one of largest expected F1.

*expected* is the sum of all pair probabilities over the true pairs: 1 is honest. *calibration* is
the mean difference between probability and share of true pairs, over bins. Brier and log score are
sums over the pairs that either method finds and all true pairs, over the number of true pairs;
lower is better. Splink is run with the settings of its own examples, or the nearest to them; its
pairs are linked from a probability of one half on. *entities*: the true number and the 95%
interval.

| file | method | precision | recall | F1 | expected | calibration | Brier | log | entities | s |
|---|---|---:|---:|---:|---:|---:|---:|---:|---|---:|"""


@dataclass(frozen=True)
class Known:
    """What is known of a file besides its content, and what its F1 should be."""

    duplicates: bool = True
    blocks: tuple[str, ...] = ()
    f1: float | None = None


KNOWN = {
    "RLdata500": Known(f1=0.98),
    "febrl1": Known(f1=0.998),
    "febrl3": Known(f1=0.998),
    "febrl4": Known(duplicates=False, f1=0.999),
    "dup_data": Known(f1=0.95),
    "no_dup_data": Known(duplicates=False, f1=0.95),
    "italy": Known(duplicates=False, blocks=("IREG",), f1=0.62),
}


@dataclass
class Result:
    """What one method did to one file."""

    file: str
    method: str
    precision: float
    recall: float
    f1: float
    seconds: float
    expected: float | None = None  # sum of pair probabilities over true pairs
    calibration: float | None = None  # calibration error of pair probabilities
    brier: float | None = None  # sum over pairs, over true pairs
    log_score: float | None = None
    entities: int | None = None
    interval: tuple[float, float] | None = None
    bins: list[tuple[float, float, int]] = field(default_factory=list)
    regions: dict[str, tuple[float, float, float]] = field(default_factory=dict)


def read(path: Path, known: Known) -> tuple[Model, pa.Table]:
    """The model that `smered init` would set up."""
    given = merge(
        Configuration(),
        {"data": {"files": [str(path)], "duplicates": known.duplicates,
                  "blocks": list(known.blocks), "truth": TRUTH}},
    )  # fmt: skip
    sources = read_sources([str(path)])
    config, _ = guess(given, sources, path.parent)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return make_model(config, sources), next(iter(sources.values())).table


def scores(
    probability: NDArray[np.float64], match: NDArray[np.bool_], true_pairs: int, least: float
) -> dict[str, float]:
    """Brier and log score of pairs, each summed and per true pair; lower is better."""
    p = np.clip(probability, least, 1.0 - least)
    log = -np.where(match, np.log(p), np.log1p(-p)).sum()
    return {
        "brier": float(((probability - match) ** 2).sum() / true_pairs),
        "log_score": float(log / true_pairs),
    }


def run_file(path: Path, known: Known) -> list[Result]:
    """One file by every method."""
    model, table = read(path, known)
    begun = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        posterior = smered.sample(model, **SETTINGS)
    estimate = posterior.estimate(loss="f1")
    seconds = time.perf_counter() - begun
    truth = np.unique(table[TRUTH].to_pylist(), return_inverse=True)[1]
    true_pairs = pairs_of(truth)
    found = evaluate(posterior, pa.array(truth), estimate)
    ours = Result(
        path.stem, "smered", found.estimate.precision, found.estimate.recall, found.estimate.f1,
        seconds, calibration=found.reliability.error, entities=found.true_entities,
        interval=(found.entities.lower, found.entities.upper),
        expected=(found.posterior.true + found.posterior.false) / true_pairs,
        bins=[(float(p), float(o), int(n)) for p, o, n in zip(
            found.reliability.predicted, found.reliability.observed, found.reliability.pairs,
            strict=True) if n],
    )  # fmt: skip
    exact = exact_matching(path.stem, model, truth)
    results = [ours, exact]
    if known.blocks:
        ours.regions = by_region(model, estimate.entity, truth)

    draws = posterior.chains * posterior.draws
    one, two, together = posterior.sets.pairs
    n = len(truth)
    mine = {int(k): float(c) / draws for k, c in zip(one * n + two, together, strict=True)}
    peer = splink_pairs(path.stem, table, known)
    if peer is not None:
        peer_pairs, peer_seconds = peer
        every = np.array(sorted({*mine, *peer_pairs} | {*true_keys(truth)}))
        match = truth[every // n] == truth[every % n]
        least = 0.5 / (draws + 1)
        theirs = np.array([peer_pairs.get(int(k), 0.0) for k in every])
        own = np.array([mine.get(int(k), 0.0) for k in every])
        vars(ours).update(scores(own, match, true_pairs, least))
        linked = theirs >= 0.5
        right = int((linked & match).sum())
        precision, recall = right / max(int(linked.sum()), 1), right / true_pairs
        results.append(
            Result(
                path.stem, "Splink", precision, recall,
                2 * right / (int(linked.sum()) + true_pairs), peer_seconds,
                expected=float(theirs.sum()) / true_pairs,
                calibration=float(reliability(theirs[theirs > 0], match[theirs > 0]).error),
                **scores(theirs, match, true_pairs, least),
            )
        )  # fmt: skip
    return results


def pairs_of(labels: NDArray[Any]) -> int:
    """Pairs of records with the same label."""
    sizes = np.unique(labels, return_counts=True)[1]
    return int((sizes * (sizes - 1) // 2).sum())


def true_keys(truth: NDArray[Any]) -> list[int]:
    """True pairs as one * n + two."""
    n, order = len(truth), np.argsort(truth, kind="stable")
    keys = []
    for group in np.split(order, np.flatnonzero(np.diff(truth[order])) + 1):
        group = np.sort(group)
        keys += [int(a) * n + int(b) for i, a in enumerate(group) for b in group[i + 1 :]]
    return keys


def exact_key(model: Model) -> NDArray[Any]:
    """Records that agree in every field and block."""
    codes = [part.codes for part in model.coded]
    return number_rows([*codes, model.records.block.astype(np.int32)], len(model.records))


def exact_matching(name: str, model: Model, truth: NDArray[Any]) -> Result:
    """Link what agrees in every field; within a file only if it may hold duplicates."""
    begun = time.perf_counter()
    key, file = exact_key(model), model.records.file
    linked, right = count_exact(key, file, truth, model)
    precision, recall = right / max(linked, 1), right / pairs_of(truth)
    f1 = 2 * right / (linked + pairs_of(truth))
    return Result(name, "exact", precision, recall, f1, time.perf_counter() - begun)


def count_exact(
    key: NDArray[Any], file: NDArray[Any], truth: NDArray[Any], model: Model
) -> tuple[int, int]:
    """Pairs with equal keys, and how many of them are true."""
    linked, right = pairs_of(key), pairs_of(number_rows([key, truth.astype(np.int32)], len(key)))
    if model.single.all():  # not within a file
        linked -= pairs_of(number_rows([key, file], len(key)))
    return linked, right


def by_region(
    model: Model, entity: NDArray[Any], truth: NDArray[Any]
) -> dict[str, tuple[float, float, float]]:
    """F1 of the estimate, of exact matching between files, and of all pairs, in every block."""
    found, key, block = {}, exact_key(model), model.records.block
    column = model.records.columns[model.records.block_columns[0]]
    for number in np.unique(block):
        own = block == number
        linked, right = count_exact(
            number_rows([key[own]], int(own.sum())), model.records.file[own], truth[own], model
        )
        exact = 2 * right / (linked + pairs_of(truth[own]))
        naive = 2 * right / (pairs_of(key[own]) + pairs_of(truth[own]))
        name = column.levels[int(column.codes[np.flatnonzero(own)[0]])].as_py()
        found[name] = (float(links(entity[own], truth[own]).f1), exact, naive)
    return found


def main(folder: Path, names: list[str]) -> None:
    """Run every file that is there, print one table and write the page."""
    kept = DOCS / "accuracy.json"
    results: dict[str, list[dict[str, Any]]] = json.loads(kept.read_text()) if kept.exists() else {}
    if names == ["--page"]:
        write_page(results)
        return
    paths = [folder / f"{name}.csv" for name in names] if names else sorted(folder.glob("*.csv"))
    for path in paths:
        print(f"{path.stem} ...", flush=True)
        results[path.stem] = [asdict(row) for row in run_file(path, KNOWN.get(path.stem, Known()))]
        kept.write_text(json.dumps(results, indent=1) + "\n")
        show({path.stem: results[path.stem]})
    show(results)
    write_page(results)


def write_page(results: dict[str, list[dict[str, Any]]]) -> None:
    """Write docs/accuracy.md and the figure of reliability."""
    plot_reliability(results)
    lines = [INTRODUCTION]
    for name in [*KNOWN, *(name for name in results if name not in KNOWN)]:
        lines += ["| " + " | ".join(cells(row)) + " |" for row in results.get(name, [])]
    lines += ["", "![Reliability of pair probabilities](images/reliability.svg)", ""]
    lines += ["Each point is a bin of pairs, with their number. On the diagonal, probabilities are"]
    lines += ["what they say.", ""]
    for name, rows in results.items():
        regions = rows[0]["regions"]
        if regions:
            lines += [
                f"`{name}` by block: F1 of the estimate, and of exact matching between files.",
                "",
            ]
            lines += ["*all pairs*: exact matching that also links within files.", ""]
            lines += ["| block | estimate | exact | all pairs |", "|---|---:|---:|---:|"]
            for region, f1 in sorted(regions.items(), key=lambda item: item[0].zfill(3)):
                lines.append(f"| {region} | " + " | ".join(f"{x:.3f}" for x in f1) + " |")
    (DOCS / "accuracy.md").write_text("\n".join(lines) + "\n")


def plot_reliability(results: dict[str, list[dict[str, Any]]]) -> None:
    """Draw observed against predicted shares, one panel for each file."""
    import matplotlib.pyplot as plt

    names = [name for name in KNOWN if name in results]
    figure, panels = plt.subplots(
        2, 4, figsize=(9, 4.8), layout="constrained", sharex=True, sharey=True
    )
    for axes in panels.flat[len(names) :]:
        axes.axis("off")
    for axes, name in zip(panels.flat, names, strict=False):
        bins = np.array(results[name][0]["bins"])
        axes.plot([0, 1], [0, 1], color="0.7", linewidth=1)
        axes.scatter(bins[:, 0], bins[:, 1], s=8 + 12 * np.log10(bins[:, 2]), alpha=0.8)
        for predicted, observed, count in bins:
            axes.annotate(f"{int(count):,}", (predicted, observed), fontsize=6, color="0.35",
                          xytext=(3, -7), textcoords="offset points")  # fmt: skip
        axes.set_title(name, fontsize=9)
        axes.spines[["top", "right"]].set_visible(False)
    figure.supxlabel("probability of a match", fontsize=9)
    figure.supylabel("share of true matches", fontsize=9)
    figure.savefig(DOCS / "images" / "reliability.svg")
    plt.close(figure)


def show(results: dict[str, list[dict[str, Any]]]) -> None:
    """Print the results."""
    table = Table("file", "method", "precision", "recall", "F1", "expected/true", "calibration",
                  "Brier", "log score", "entities", "seconds")  # fmt: skip
    for rows in results.values():
        for row in rows:
            table.add_row(*cells(row))
    Console(width=150).print(table)


def cells(row: dict[str, Any]) -> list[str]:
    """A result as text."""

    def number(value: float | None, digits: int) -> str:
        return "" if value is None else f"{value:.{digits}f}"

    inside = ""
    if row["interval"]:
        low, high = row["interval"]
        mark = "" if low <= row["entities"] <= high else " (outside)"
        inside = f"{row['entities']:,} in [{low:,.0f}, {high:,.0f}]{mark}"
    return [
        row["file"], row["method"], number(row["precision"], 3), number(row["recall"], 3),
        number(row["f1"], 4), number(row["expected"], 3), number(row["calibration"], 4),
        number(row["brier"], 4), number(row["log_score"], 4), inside, number(row["seconds"], 1),
    ]  # fmt: skip


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
