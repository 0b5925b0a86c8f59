"""One figure for each question that a user asks first.

Every function takes a posterior, and the truth where it is known, and returns a matplotlib Figure.
"""

import io
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from smered.evaluate import Confusion, Reliability
from smered.layout import Floats
from smered.population.estimate import Population
from smered.population.show import METHODS
from smered.posterior import Posterior
from smered.store.disk import cannot_write

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["confusion", "distortion_rates", "entities", "match_probabilities", "overlap"]
__all__ += ["as_svg", "population", "reliability", "save"]

INK, POSTERIOR, TRUTH = "#333333", "#2a6f97", "#c1121f"
LINKAGE_CERTAIN = "#e09f3e"
MOST_PATTERNS = 30  # overlap patterns that are shown, the largest
LEAST_MATCH = 0.01  # probability of pairs that are counted
ON_PAPER = "#222222"  # ink on light cells, the same on a dark page
CHAINS = ("#2a6f97", "#e09f3e", "#6a994e", "#9d4edd", "#577590", "#bc6c25")


def blank(columns: int = 1, *, width: float = 6.4, height: float = 3.6) -> "tuple[Figure, Any]":
    """A figure in the project's style, drawn without a display."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.subplots(1, columns, squeeze=False)[0]
    for axis in axes:
        axis.spines[["top", "right"]].set_visible(False)
        axis.spines[:].set_color(INK)
        axis.tick_params(colors=INK, labelsize=9)
        axis.xaxis.label.set_color(INK)
        axis.yaxis.label.set_color(INK)
    return figure, axes


def legend(axes: "Axes", **settings: Any) -> None:
    """A legend in the project's style."""
    axes.legend(frameon=False, fontsize=8, labelcolor=INK, **settings)


def mark_truth(axes: "Axes", value: float, *, across: bool = False) -> None:
    """Draw a line at the truth."""
    line = axes.axhline if across else axes.axvline
    line(value, color=TRUTH, linewidth=1.5, linestyle="--", label=f"truth: {value:,.0f}")


def entities(posterior: Posterior, truth: int | None = None) -> "Figure":
    """Trace of the number of entities by chain, and its posterior density."""
    draws = posterior.entities().draws
    figure, (trace, density) = blank(2, width=9)
    for chain, values in enumerate(draws):
        trace.plot(values, linewidth=0.8, color=CHAINS[chain % len(CHAINS)], label=f"chain {chain}")
    trace.set(xlabel="draw", ylabel="entities")
    grid, heights = smooth(draws.ravel())
    density.fill_between(grid, heights, color=POSTERIOR, alpha=0.3)
    density.plot(grid, heights, color=POSTERIOR)
    density.set(xlabel="entities", ylabel="posterior density", ylim=(0, None))
    if truth is not None:
        mark_truth(trace, truth, across=True)
        mark_truth(density, truth)
    legend(trace, loc="lower left", bbox_to_anchor=(0, 1), ncols=3, borderpad=0)
    for axis in (trace, density):
        axis.ticklabel_format(useOffset=False)
    thousands(trace.yaxis)
    thousands(density.xaxis)
    return figure


def overlap(posterior: Posterior, truth: Mapping[tuple[str, ...], int] | None = None) -> "Figure":
    """Entities by the files that hold them, with 95% intervals; the largest, if they are many."""
    counts = posterior.overlap()
    every = set(counts.kinds) | set(truth or {})
    means_of = dict(zip(counts.kinds, counts.draws.mean(axis=(1, 2)), strict=True))
    largest = sorted(every, key=lambda p: (-means_of.get(p, 0.0), p))[:MOST_PATTERNS]
    patterns = sorted(largest, key=lambda p: (len(p), p))
    summaries = [counts[pattern] for pattern in patterns]
    figure, (axes,) = blank(height=1.2 + 0.42 * len(patterns))
    rows = np.arange(len(patterns))
    means = np.array([s.mean for s in summaries])
    low = means - [s.lower for s in summaries]
    high = np.array([s.upper for s in summaries]) - means
    axes.barh(rows, means, color=POSTERIOR, alpha=0.75, height=0.6, label="posterior mean")
    axes.errorbar(means, rows, xerr=np.maximum([low, high], 0), fmt="none", ecolor=INK, capsize=3)
    if truth is not None:
        known = [truth.get(pattern, 0) for pattern in patterns]
        axes.plot(known, rows, "D", color=TRUTH, markersize=5, label="truth")
        legend(axes, loc="lower left", bbox_to_anchor=(0, 1), ncols=2)
    axes.set_yticks(rows, [plain(" & ".join(pattern)) for pattern in patterns])
    axes.invert_yaxis()
    axes.set_xlabel("entities in exactly these files (bars: mean, whiskers: 95% interval)")
    thousands(axes.xaxis)
    return figure


def distortion_rates(posterior: Posterior) -> "Figure":
    """Distortion rate of each field (and file), with 95% intervals."""
    names, rates = [], []
    files = posterior.records.files if posterior.model.rate_rows > 1 else ("",)
    for column, part in enumerate(posterior.model.coded):
        for row, file in enumerate(files):
            if not part.exact:
                names.append(f"{part.name}, {file}" if file else part.name)
                rates.append(posterior.beta[:, :, row, column].ravel() * 100)
    figure, (axes,) = blank(height=1.2 + 0.36 * len(names))
    rows = np.arange(len(names))
    low, middle, high = np.quantile(rates, [0.025, 0.5, 0.975], axis=1)
    axes.hlines(rows, low, high, color=POSTERIOR, linewidth=3, alpha=0.5)
    axes.plot(middle, rows, "o", color=POSTERIOR)
    axes.set_yticks(rows, [plain(name) for name in names])
    axes.invert_yaxis()
    axes.set(xlabel="distorted values, % (median and 95% interval)", xlim=(0, None))
    return figure


def pair_probabilities(posterior: Posterior, least: float = LEAST_MATCH) -> Floats:
    """Match probabilities of all pairs that have at least this one."""
    probability = posterior.sets.pairs[2] / (posterior.chains * posterior.draws)
    return probability[probability >= least]


def match_probabilities(posterior: Posterior, min_probability: float = LEAST_MATCH) -> "Figure":
    """How many pairs have which match probability: how much is certain and how much is not."""
    values = pair_probabilities(posterior, min_probability)
    figure, (axes,) = blank()
    axes.hist(values, bins=np.linspace(0, 1, 41), color=POSTERIOR, alpha=0.75)
    axes.set(xlabel="match probability", ylabel="pairs (log scale)", xlim=(0, 1))
    if len(values):
        axes.set_yscale("log")
    certain = int((values >= 0.99).sum())
    axes.set_title(
        f"{len(values):,} pairs above {min_probability:g}; {certain:,} of them at .99 or more",
        fontsize=9, color=INK, loc="left",
    )  # fmt: skip
    return figure


def confusion(found: Confusion) -> "Figure":
    """Records by estimated and true overlap pattern, as shares of each row."""
    names = [plain(" & ".join(pattern)) for pattern in found.patterns]
    size = 1.8 + 0.62 * len(names)
    figure, (axes,) = blank(width=size + 1.2, height=size)
    share = found.records / np.maximum(found.row_sums, 1)[:, None]
    edges = np.arange(len(names) + 1) - 0.5
    axes.pcolormesh(edges, edges, share, cmap="Blues", vmin=0, vmax=1)
    axes.set_aspect("equal")
    axes.invert_yaxis()
    for row, column in np.ndindex(found.records.shape):
        count = int(found.records[row, column])
        if count:
            ink = "white" if share[row, column] > 0.6 else ON_PAPER
            axes.text(column, row, f"{count:,}", ha="center", va="center", fontsize=7, color=ink)
    axes.set_xticks(range(len(names)), names, rotation=45, ha="right")
    axes.set_yticks(range(len(names)), names)
    axes.spines[:].set_visible(False)
    axes.set(xlabel="files of the true entity", ylabel="files of the estimated entity")
    axes.set_title("records; colour: share of the row", fontsize=9, color=INK, loc="left")
    return figure


def reliability(found: Reliability) -> "Figure":
    """Match probabilities against how often such pairs match: on the diagonal, they are right."""
    figure, (axes,) = blank(width=4.6, height=4.4)
    axes.plot([0, 1], [0, 1], color=INK, linewidth=0.8, linestyle="--", label="calibrated")
    shown = found.pairs > 0
    axes.plot(found.predicted[shown], found.observed[shown], color=POSTERIOR, linewidth=1)
    area = 20 + 180 * np.sqrt(found.pairs[shown] / max(int(found.pairs.max()), 1))
    axes.scatter(found.predicted[shown], found.observed[shown], area, color=POSTERIOR, alpha=0.75,
                 label="pairs, by number", zorder=3)  # fmt: skip
    axes.set(xlabel="match probability", ylabel="share that match in truth", xlim=(-0.03, 1.03),
             ylim=(-0.03, 1.03), aspect="equal")  # fmt: skip
    axes.set_title(f"calibration error {found.error:.3f}", fontsize=9, color=INK, loc="left")
    legend(axes, loc="upper left")
    return figure


def population(found: Population) -> "Figure":
    """The size of a population by method: with the doubt about the linkage, and without."""
    whole = [size for size in found.sizes if size.stratum is None]
    methods = list(dict.fromkeys(size.method for size in whole))
    figure, (axes,) = blank(width=7.2, height=1.4 + 0.6 * len(methods))
    ends = [x for s in whole for x in (s.lower, s.upper, s.estimate) if np.isfinite(x)]
    far = max(ends, default=1.0) * 1.05
    for size in whole:
        row = methods.index(size.method) + (0.15 if size.certain else -0.15)
        color = LINKAGE_CERTAIN if size.certain else POSTERIOR
        label = "if the linkage were certain" if size.certain else "averaged over the linkage"
        axes.hlines(row, size.lower, min(size.upper, far), color=color, linewidth=3, alpha=0.5)
        axes.plot(min(size.estimate, far), row, "o", color=color, label=label)
        if not np.isfinite(size.upper):
            axes.plot(far, row, ">", color=color)
    seen = next(size.observed for size in whole if not size.certain)
    axes.axvline(seen, color=INK, linewidth=1, linestyle=":", label=f"seen: {seen:,.0f}")
    axes.set_yticks(range(len(methods)), [METHODS[name] for name in methods])
    axes.set_ylim(len(methods) - 0.5, -0.5)
    axes.set_xlabel(f"entities in all (median and {found.level:.0%} interval)")
    if far > 10 * seen:
        axes.set_xscale("log")
    thousands(axes.xaxis)
    axes.xaxis.set_minor_formatter("")
    axes.locator_params(axis="x", **({"numticks": 5} if far > 10 * seen else {"nbins": 6}))
    handles = dict(zip(*reversed(axes.get_legend_handles_labels()), strict=True))  # one of each
    figure.legend(handles.values(), handles.keys(), frameon=False, fontsize=8, labelcolor=INK,
                  loc="outside upper right", ncols=3)  # fmt: skip
    return figure


def save(figure: "Figure", path: Path) -> None:
    """Write a figure as PNG and SVG."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        for ending in ("png", "svg"):
            figure.savefig(path.with_suffix(f".{ending}"), dpi=150)
    except OSError as error:
        raise cannot_write(path, error) from None


def as_svg(figure: "Figure", name: str) -> str:
    """A figure as SVG for a page: its text stays text, its ink takes the page's colour.

    `name` keeps the parts of several figures on one page apart.
    """
    from matplotlib import rc_context

    sink = io.StringIO()
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": name, "font.family": "sans-serif"}):
        figure.savefig(sink, format="svg", transparent=True, metadata={"Date": None})
    svg = sink.getvalue()
    svg = re.sub(r'( id="|url\(#|xlink:href="#)', rf"\g<1>{name}-", svg)
    svg = svg[svg.index("<svg") :].replace(INK, "currentColor")
    svg = svg.replace(POSTERIOR, f"var(--accent, {POSTERIOR})")
    return re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)


def smooth(values: Floats) -> tuple[Floats, Floats]:
    """A Gaussian kernel density estimate with Silverman's bandwidth."""
    spread = min(np.std(values), np.subtract(*np.quantile(values, [0.75, 0.25])) / 1.34)
    width = max(0.9 * spread * len(values) ** -0.2, 0.5)
    grid = np.linspace(values.min() - 3 * width, values.max() + 3 * width, 400)
    points, counts = np.unique(values, return_counts=True)
    kernel = np.exp(-0.5 * ((grid[:, None] - points) / width) ** 2)
    return grid, kernel @ counts / (len(values) * width * np.sqrt(2 * np.pi))


def plain(name: str) -> str:
    """A name as it is: a dollar sign begins no formula."""
    return name.replace("$", r"\$")


def thousands(axis: Any) -> None:
    """Write large numbers with separators."""
    axis.set_major_formatter(lambda value, _: f"{value:,.0f}")
