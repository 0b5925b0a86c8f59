"""The tables of a study, made from what its runs found."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from smered.diagnostics import ess_bulk
from smered.simulate import PAPER_OVERLAP
from smered.store.disk import write_csv, write_json

__all__ = [
    "APPLICATIONS",
    "LEARNED",
    "MODEL",
    "PAPER",
    "SURVEY",
    "Row",
    "burn_in_needed",
    "make_tables",
    "of_part",
]
__all__ += ["overlap_name", "write_tables"]

Row = dict[str, Any]
Results = Mapping[str, Mapping[str, Any]]

APPLICATIONS = ("SMERE", "SMERED", "combined")
# What the paper prints for its survey; nothing where it prints nothing.
PAPER: dict[str, dict[str, float | None]] = {
    "SMERE": {"true": 25196, "false": 1298.9, "missing": 3050, "fnr": 0.11, "fpr": 0.046,
              "entities": 35992},
    "SMERED": {"true": None, "false": None, "missing": None, "fnr": 0.11, "fpr": 0.38,
               "entities": None},
    "combined": {"true": 24900, "false": 10595, "missing": 3346, "fnr": 0.11, "fpr": 0.37,
                 "entities": None},
}  # fmt: skip
PAPER_OVERLAPS = {
    "SMERE": {"1982": 7964, "1989": 3434.1, "1994": 8937.8, "1982 + 1989": 4116.9,
              "1989 + 1994": 4502.1, "1982 + 1994": 1632.2, "1982 + 1989 + 1994": 5413},
    "SMERED": {"1982": 7394.7, "1989": 3009.9, "1994": 6850.4, "1982 + 1989": 4247.5,
               "1989 + 1994": 3902.7, "1982 + 1994": 1478.7, "1982 + 1989 + 1994": 5191.2},
}  # fmt: skip
SURVEY, MODEL = "the survey's fields and blocks", "the model's own"
LEARNED = "the model's own, sizes learned"
NEAR = 3.0  # standard deviations within which a chain is at its posterior
STAYING = 20  # sweeps for which it must stay there
THINNINGS = (1, 2, 5, 10, 20)
LEAST_KEPT = 10  # draws of a chain that thinning must leave


def of_part(results: Results, part: str) -> list[Mapping[str, Any]]:
    """The results of one part of the study."""
    return [result for result in results.values() if result["cell"]["part"] == part]


def overlap_name(files: Iterable[str]) -> str:
    """How an overlap pattern is written."""
    return " + ".join(files)


def make_tables(results: Results) -> dict[str, list[Row]]:
    """All tables by name, as rows."""
    applied = {name: results[name] for name in APPLICATIONS}
    return {
        "simulation": simulation_table(of_part(results, "simulation")),
        "coverage": coverage_table(of_part(results, "coverage")),
        "application": application_table(applied),
        "overlap": overlap_table(applied),
        "confusion": confusion_table(applied["SMERE"]),
        "differing": difference_table(applied["SMERE"]),
        "sensitivity": sensitivity_table(of_part(results, "sensitivity")),
        "convergence": convergence_table(applied),
        "thinning": thinning_table(applied["SMERE"]),
    }


def write_tables(tables: Mapping[str, Sequence[Row]], folder: Path) -> None:
    """Write each table as CSV and JSON."""
    for name, rows in tables.items():
        write_csv(folder / f"{name}.csv", pa.Table.from_pylist(list(rows)))
        write_json(folder / f"{name}.json", list(rows))


def grouped(
    results: Iterable[Mapping[str, Any]], *keys: str
) -> dict[tuple[Any, ...], list[Mapping[str, Any]]]:
    """Results with the same settings together."""
    groups: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for result in results:
        groups.setdefault(tuple(result["cell"][key] for key in keys), []).append(result)
    return groups


def mean(values: Iterable[float]) -> float:
    """The mean as a plain number."""
    return float(np.mean(list(values)))


def covers(row: Mapping[str, Any]) -> bool:
    """Whether an interval holds the truth."""
    return bool(row["lower"] <= row["truth"] <= row["upper"])


def simulation_table(results: list[Mapping[str, Any]]) -> list[Row]:
    """Error rates and N by level of distortion, means over replicates."""
    rows = []
    for (distortion,), group in grouped(results, "distortion").items():
        found = [result["evaluation"] for result in group]
        rows.append({
            "distortion": distortion,
            "replicates": len(group),
            "fnr": mean(f["posterior"]["fnr"] for f in found),
            "fpr": mean(f["posterior"]["fpr"] for f in found),
            "split_by_blocks": mean(result["apart"] for result in group),
            "entities": mean(f["entities"]["mean"] for f in found),
            "truth": mean(f["entities"]["truth"] for f in found),
            "relative_error": mean(f["entities"]["mean"] / f["entities"]["truth"] - 1
                                   for f in found),
            "recovered": mean(f["estimate"]["clusters"]["recall"] for f in found),
            "worst_rhat": max((r["rhat"] for r in group if r["rhat"]), default=None),
        })  # fmt: skip
    return rows


def coverage_table(results: list[Mapping[str, Any]]) -> list[Row]:
    """How often 95% intervals hold the truth, by level of distortion and kind of data."""
    rows = []
    kinds = {(False, "UniformLabels"): SURVEY, (True, "UniformLabels"): MODEL}
    for (*kind, distortion), group in grouped(
        results, "independent", "prior", "distortion"
    ).items():
        found = [result["evaluation"] for result in group]
        overlaps = [covers(row) for f in found for row in f["overlap"] if row["truth"]]
        rows.append({
            "data": kinds.get(tuple(kind), LEARNED),
            "distortion": distortion,
            "replicates": len(group),
            "records": mean(result["records"] for result in group),
            "entities_covered": mean(covers(f["entities"]) for f in found),
            "entities_held": f"{sum(covers(f['entities']) for f in found)} of {len(found)}",
            "overlaps_covered": mean(overlaps),
            "relative_error": mean(f["entities"]["mean"] / f["entities"]["truth"] - 1
                                   for f in found),
            "fnr": mean(f["posterior"]["fnr"] for f in found),
            "fpr": mean(f["posterior"]["fpr"] for f in found),
        })  # fmt: skip
    return rows


def application_table(applied: Results) -> list[Row]:
    """Links, error rates and N under the paper's three settings, beside what it prints."""
    rows = []
    for name, result in applied.items():
        links, people = result["evaluation"]["posterior"], result["evaluation"]["entities"]
        ours = {key: links[key] for key in ("true", "false", "missing", "fnr", "fpr")}
        ours |= {"entities": people["mean"], "lower": people["lower"], "upper": people["upper"]}
        rows.append({"run": name, "source": "here", **ours,
                     "within_waves": result["within_waves"]})  # fmt: skip
        rows.append({"run": name, "source": "paper", **PAPER[name], "lower": None, "upper": None,
                     "within_waves": None})  # fmt: skip
    exact = next(iter(applied.values()))["exact_matching"]
    true_links = exact["true"] + exact["missing"]
    rows.append({"run": "equal records linked", "source": "here", **exact,
                 "fnr": exact["missing"] / true_links, "fpr": exact["false"] / true_links,
                 "entities": None, "lower": None, "upper": None,
                 "within_waves": None})  # fmt: skip
    return rows


def overlap_table(applied: Results) -> list[Row]:
    """People by the waves that hold them: truth, posterior, relative errors, the paper's."""
    rows = []
    for name in ("SMERE", "SMERED"):
        for row in applied[name]["evaluation"]["overlap"]:
            pattern = overlap_name(row["files"])
            paper = PAPER_OVERLAPS[name].get(pattern)
            rows.append({
                "run": name, "waves": pattern, "truth": row["truth"], "mean": row["mean"],
                "lower": row["lower"], "upper": row["upper"],
                "relative_error": row["relative_error"], "paper": paper,
                "paper_error": paper and paper / PAPER_OVERLAP[tuple(row["files"])] - 1,
            })  # fmt: skip
    return rows


def confusion_table(result: Mapping[str, Any]) -> list[Row]:
    """Records by estimated pattern (rows) and true pattern (columns)."""
    found = result["evaluation"]["confusion"]
    names = [overlap_name(pattern) for pattern in found["patterns"]]
    return [
        {"estimated": name} | dict(zip(names, counts, strict=True)) | {"sum": total}
        for name, counts, total in zip(names, found["records"], found["row_sums"], strict=True)
    ]


def difference_table(result: Mapping[str, Any]) -> list[Row]:
    """True pairs by the fields in which they differ, and the share of them that is found."""
    return [
        {"differ_in": ", ".join(row["fields"]) or "nothing", "pairs": row["pairs"],
         "found": row["found"]}
        for row in result["differing"]
    ]  # fmt: skip


def sensitivity_table(results: list[Mapping[str, Any]]) -> list[Row]:
    """N, error rates and mixing with one setting changed at a time."""
    return [
        {
            "setting": result["cell"]["name"],
            "entities": result["evaluation"]["entities"]["mean"],
            "lower": result["evaluation"]["entities"]["lower"],
            "upper": result["evaluation"]["entities"]["upper"],
            "fnr": result["evaluation"]["posterior"]["fnr"],
            "fpr": result["evaluation"]["posterior"]["fpr"],
            "split_by_blocks": result["apart"],
            "rhat": result["rhat"],
            "effective_draws": result["effective"],
            "seconds": result["seconds"],
        }
        for result in results
    ]


def burn_in_needed(trace: Sequence[int], center: float, sd: float) -> int:
    """Sweeps until a chain is near its posterior and stays there for a while.

    >>> burn_in_needed([90, 80, 51] + [50] * 30, 50, 1)
    2
    """
    near = np.abs(np.asarray(trace) - center) <= NEAR * max(sd, 1.0)
    for sweep in range(len(near) - STAYING):
        if near[sweep : sweep + STAYING].all():
            return sweep
    return len(near)


def convergence_table(applied: Results) -> list[Row]:
    """R-hat, effective draws and the burn-in that each chain needed."""
    rows = []
    for name, result in applied.items():
        cell = result["cell"]
        center = result["evaluation"]["entities"]["mean"]
        needed = [burn_in_needed(t, center, result["entities"]["sd"]) for t in result["traces"]]
        rows.append({
            "run": name, "chains": cell["chains"], "burn_in": cell["burn_in"],
            "draws": cell["draws"], "rhat": result["rhat"],
            "effective_draws": result["effective"], "longest_burn_in_needed": max(needed),
            "seconds": result["seconds"], "verdict": result["diagnostics"],
        })  # fmt: skip
    return rows


def thinning_table(result: Mapping[str, Any]) -> list[Row]:
    """What is lost by keeping only every so many-th draw."""
    cell = result["cell"]
    draws = np.array([trace[cell["burn_in"] :] for trace in result["traces"]], float)
    return [
        {"thin": thin, "draws_kept": draws[:, ::thin].size,
         "effective_draws": ess_bulk(draws[:, ::thin])}
        for thin in THINNINGS
        if thin * LEAST_KEPT <= draws.shape[1]
    ]  # fmt: skip
