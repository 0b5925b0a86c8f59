"""The figures of a study."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from smered.evaluate import Confusion
from smered.report.figures import (
    CHAINS,
    INK,
    POSTERIOR,
    TRUTH,
    blank,
    confusion,
    legend,
    plain,
    save,
    smooth,
    thousands,
)
from smered.study.tables import (
    APPLICATIONS,
    of_part,
    overlap_table,
    sensitivity_table,
    simulation_table,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["draw_figures"]

Results = Mapping[str, Mapping[str, Any]]


def draw_figures(results: Results, folder: Path) -> None:
    """Draw every figure as PNG and SVG."""
    applied = {name: results[name] for name in APPLICATIONS}
    drawn = {
        "rates": rates(results),
        "densities": densities(results),
        "people": people(applied),
        "overlap": overlap(applied),
        "confusion": heatmap(applied["SMERE"]),
        "sensitivity": sensitivity(results),
        "traces": traces(applied["SMERE"]),
    }
    for name, figure in drawn.items():
        save(figure, folder / name)


def rates(results: Results) -> "Figure":
    """FNR and FPR against distortion, each replicate a point."""
    found = of_part(results, "simulation")
    level = [100 * result["cell"]["distortion"] for result in found]
    figure, (axes,) = blank()
    means = simulation_table(found)
    at = [100 * row["distortion"] for row in means]
    for rate, colour, sign in (("fnr", POSTERIOR, "+"), ("fpr", TRUTH, "^")):
        values = [result["evaluation"]["posterior"][rate] for result in found]
        axes.plot(level, values, sign, color=colour, markersize=7)
        axes.plot(at, [row[rate] for row in means], color=colour, linewidth=1, label=rate.upper())
    axes.plot(at, [row["split_by_blocks"] for row in means], color=INK, linewidth=1,
              linestyle=":", label="true links that the blocks split")  # fmt: skip
    axes.set(xlabel="distorted values in every field, %", ylabel="share of the true links",
             ylim=(0, None))  # fmt: skip
    legend(axes)
    return figure


def densities(results: Results) -> "Figure":
    """Posterior densities of N at the six levels, with the truth."""
    from matplotlib.figure import Figure

    found = [r for r in of_part(results, "simulation") if r["cell"]["name"].endswith("-0")]
    figure = Figure(figsize=(9, 5), layout="constrained")
    for axis, result in zip(figure.subplots(2, 3).ravel(), found, strict=True):
        grid, heights = smooth(np.array(result["entities"]["draws"], float))
        axis.fill_between(grid, heights, color=POSTERIOR, alpha=0.4)
        axis.axvline(result["evaluation"]["entities"]["truth"], color=TRUTH, linestyle="--")
        axis.set_title(f"{100 * result['cell']['distortion']:g}%", fontsize=9, loc="left")
        axis.spines[["top", "right", "left"]].set_visible(False)
        axis.set_yticks([])
        axis.tick_params(labelsize=8)
        axis.locator_params(axis="x", nbins=4)
        thousands(axis.xaxis)
    figure.supxlabel("people (dashed: truth)", fontsize=9)
    return figure


def people(applied: Results) -> "Figure":
    """Posterior of N under the three settings."""
    figure, (axes,) = blank()
    for colour, (name, result) in zip(CHAINS, applied.items(), strict=False):
        grid, heights = smooth(np.array(result["entities"]["draws"], float))
        axes.fill_between(grid, heights / heights.max(), color=colour, alpha=0.4, label=name)
    truth = result["evaluation"]["entities"]["truth"]
    axes.axvline(truth, color=TRUTH, linestyle="--", label=f"truth: {truth:,}")
    axes.set(xlabel="people", ylabel="posterior density (its top at 1)", ylim=(0, None))
    thousands(axes.xaxis)
    legend(axes)
    return figure


def overlap(applied: Results) -> "Figure":
    """Relative errors of the overlap counts, ours and the paper's."""
    rows = overlap_table(applied)
    names = list(dict.fromkeys(row["waves"] for row in rows))
    figure, (axes,) = blank(width=7, height=1.2 + 0.5 * len(names))
    for shift, name, colour in ((-0.18, "SMERE", CHAINS[0]), (0.18, "SMERED", CHAINS[1])):
        own = [row for row in rows if row["run"] == name and row["truth"]]
        y = np.array([names.index(row["waves"]) for row in own]) + shift
        error = [100 * row["relative_error"] for row in own]
        spread = np.abs([[100 * (row[end] - row["mean"]) / row["truth"] for row in own]
                         for end in ("lower", "upper")])  # fmt: skip
        axes.errorbar(error, y, xerr=spread, fmt="o", color=colour, capsize=3, label=name)
        printed = [100 * row["paper_error"] for row in own]
        axes.plot(printed, y, "x", color=colour, label=f"{name}, the paper's survey")
    axes.axvline(0, color=TRUTH, linestyle="--", linewidth=1)
    axes.set_yticks(range(len(names)), [plain(name) for name in names])
    axes.invert_yaxis()
    axes.set_xlabel("relative error of the posterior mean, % (whiskers: 95% interval)")
    legend(axes)
    return figure


def heatmap(result: Mapping[str, Any]) -> "Figure":
    """The confusion matrix of overlap patterns."""
    found = result["evaluation"]["confusion"]
    patterns = tuple(tuple(pattern) for pattern in found["patterns"])
    return confusion(Confusion(patterns, np.array(found["records"])))


def sensitivity(results: Results) -> "Figure":
    """N and the error rates under each setting."""
    rows = sensitivity_table(of_part(results, "sensitivity"))
    figure, (left, right) = blank(2, width=9, height=1.2 + 0.3 * len(rows))
    y = np.arange(len(rows))
    means = np.array([row["entities"] for row in rows])
    spread = np.abs([[row[end] - row["entities"] for row in rows] for end in ("lower", "upper")])
    left.errorbar(means, y, xerr=spread, fmt="o", color=POSTERIOR, capsize=2)
    truth = of_part(results, "sensitivity")[0]["evaluation"]["entities"]["truth"]
    left.axvline(truth, color=TRUTH, linestyle="--", linewidth=1, label=f"truth: {truth:,}")
    left.set_yticks(y, [row["setting"] for row in rows])
    left.set_xlabel("people")
    thousands(left.xaxis)
    left.locator_params(axis="x", nbins=5)
    right.plot([row["fnr"] for row in rows], y, "+", color=POSTERIOR, label="FNR")
    right.plot([row["fpr"] for row in rows], y, "^", color=TRUTH, label="FPR")
    right.set_yticks(y, [])
    right.set(xlabel="share of the true links", xlim=(0, None))
    for axis in (left, right):
        axis.invert_yaxis()
        axis.grid(axis="y", color=INK, alpha=0.1)
        legend(axis)
    return figure


def traces(result: Mapping[str, Any]) -> "Figure":
    """N in every sweep of every chain from its start, and after the burn-in."""
    figure, (start, later) = blank(2, width=9)
    burn_in = result["cell"]["burn_in"]
    for number, (colour, trace) in enumerate(zip(CHAINS, result["traces"], strict=False)):
        start.plot(trace[:burn_in], color=colour, linewidth=1, label=f"chain {number}")
        later.plot(range(burn_in, len(trace)), trace[burn_in:], color=colour, linewidth=0.5)
    start.set(xlabel="sweep of the burn-in", ylabel="people")
    later.set(xlabel="sweep")
    for axis in (start, later):
        thousands(axis.yaxis)
    legend(start)
    return figure
