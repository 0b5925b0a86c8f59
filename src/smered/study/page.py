"""The page of a study: its tables and figures in words, written from what its runs found."""

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from smered.study.tables import LEARNED, MODEL, PAPER, SURVEY, Row

if TYPE_CHECKING:
    from jinja2 import Template

__all__ = ["load_template", "write_page"]

Results = Mapping[str, Mapping[str, Any]]
Tables = Mapping[str, Sequence[Row]]
Show = Callable[[Any], str]
UNSETTLED = 1.1  # R-hat above which a run has not converged
MOST_DIFFERENCES = 10  # kinds of differing pairs that are shown


def count(value: float | None) -> str:
    """A number of things."""
    return "" if value is None else f"{value:,.0f}"


def rate(value: float | None) -> str:
    """A rate."""
    return "" if value is None else f"{value:.3f}"


def percent(value: float | None) -> str:
    """A share."""
    return "" if value is None else f"{100 * value:.1f}%"


def signed(value: float | None) -> str:
    """A relative error."""
    return "" if value is None else f"{100 * value:+.1f}%"


def times(value: float) -> str:
    """A factor."""
    return f"{value:.1f} times"


def level(value: float) -> str:
    """A level of distortion."""
    return f"{100 * value:g}%"


COLUMNS: dict[str, dict[str, tuple[str, Show]]] = {
    "simulation": {
        "distortion": ("distortion", level), "fnr": ("FNR", rate), "fpr": ("FPR", rate),
        "split_by_blocks": ("links that blocks split", rate), "entities": ("people, mean", count),
        "truth": ("truth", count), "relative_error": ("error of N", signed),
        "recovered": ("people recovered exactly", percent), "worst_rhat": ("R-hat of N", rate),
    },
    "coverage": {
        "data": ("data", str), "distortion": ("distortion", level),
        "entities_held": ("intervals of N that hold it", str),
        "overlaps_covered": ("intervals of overlap counts", percent),
        "relative_error": ("error of N", signed), "fnr": ("FNR", rate), "fpr": ("FPR", rate),
    },
    "application": {
        "run": ("run", str), "source": ("from", str), "true": ("true links", count),
        "false": ("false", count), "missing": ("missing", count), "fnr": ("FNR", rate),
        "fpr": ("FPR", rate), "entities": ("people", count), "lower": ("2.5%", count),
        "upper": ("97.5%", count), "within_waves": ("pairs linked within a wave", count),
    },
    "differing": {
        "differ_in": ("differ in", str), "pairs": ("true pairs", count),
        "found": ("found", percent),
    },
    "overlap": {
        "run": ("run", str), "waves": ("waves", str), "truth": ("truth", count),
        "mean": ("mean", count), "lower": ("2.5%", count), "upper": ("97.5%", count),
        "relative_error": ("error", signed), "paper": ("paper's mean", count),
        "paper_error": ("its error", signed),
    },
    "sensitivity": {
        "setting": ("setting", str), "entities": ("people", count), "lower": ("2.5%", count),
        "upper": ("97.5%", count), "fnr": ("FNR", rate), "fpr": ("FPR", rate),
        "split_by_blocks": ("links that blocks split", rate), "rhat": ("R-hat of N", rate),
        "effective_draws": ("effective draws", count),
    },
    "convergence": {
        "run": ("run", str), "chains": ("chains", count), "burn_in": ("burn-in", count),
        "draws": ("draws of each", count), "rhat": ("R-hat of N", rate),
        "effective_draws": ("effective draws of N", count),
        "longest_burn_in_needed": ("sweeps to the posterior", count),
        "seconds": ("seconds", count),
    },
    "thinning": {
        "thin": ("of so many draws one is kept", count), "draws_kept": ("draws", count),
        "effective_draws": ("effective draws of N", count),
    },
    "matching_sets": {"set": ("matching set", str), "probability": ("probability", rate)},
}  # fmt: skip


def markdown(rows: Sequence[Row], columns: Mapping[str, tuple[str, Show]]) -> str:
    """A Markdown table: for each column its heading and how it is shown."""
    headings = [heading for heading, _ in columns.values()]
    sides = ["---" if show is str else "---:" for _, show in columns.values()]
    body = [[show(row[key]) for key, (_, show) in columns.items()] for row in rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (headings, sides, *body))


def write_page(results: Results, tables: Tables, size: str) -> str:
    """The whole page."""
    return str(load_template().render(size=size, **findings(results, tables)))


def load_template() -> "Template":
    """The page, with gaps for what was found."""
    from jinja2 import Environment, StrictUndefined

    environment = Environment(undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True,
                              keep_trailing_newline=True)  # fmt: skip
    environment.filters |= {f.__name__: f for f in (count, rate, percent, signed, times, level)}
    return environment.from_string((Path(__file__).parent / "page.md").read_text())


def findings(results: Results, tables: Tables) -> dict[str, Any]:
    """What the page tells, by name."""
    smere = results["SMERE"]
    told = {
        "runs": len(results),
        "seconds": sum(result["seconds"] for result in results.values()),
        "threads": smere["threads"],
        "smered_rhat": results["SMERED"]["rhat"],
        "doubted": doubted(tables["convergence"]),
        "records": smere["records"],
        "look_alikes": smere["look_alikes"],
        "false_between": results["SMERED"]["false_between"],
        "small": tables["coverage"][0],
        "truth": smere["evaluation"]["entities"]["truth"],
        "tables": shown_tables(tables, smere["matching_sets"]),
        "record": smere["matching_sets"]["record"],
        "paper": PAPER,
        "simulation": tables["simulation"],
        "coverage": tables["coverage"],
        "convergence": tables["convergence"],
        "longest": max(row["longest_burn_in_needed"] for row in tables["convergence"]),
        "burn_in": min(row["burn_in"] for row in tables["convergence"]),
        "covered": {"survey": covered(tables, SURVEY),
                    "model": covered(tables, MODEL), "learned": covered(tables, LEARNED),
                    "distorted": covered(tables, LEARNED, distorted=True)},
    }  # fmt: skip
    return told | simulated(tables["simulation"]) | applied(tables) | changed(tables["sensitivity"])


def doubted(rows: Sequence[Row]) -> str:
    """Which runs do not trust themselves, in a sentence."""
    names = [row["run"] for row in rows if row["verdict"].startswith("Not to be relied on")]
    if not names:
        return "all of them are to be relied on."
    return f"not to be relied on to the last digit are {', '.join(names)}."


def shown_tables(tables: Tables, matching_sets: Mapping[str, Any]) -> dict[str, str]:
    """The tables as Markdown."""
    confusion = tables["confusion"]
    columns = {"confusion": {key: (key, str if key == "estimated" else count)
                             for key in confusion[0]}}  # fmt: skip
    sets = [
        {"set": ", ".join(f"{r['file']}:{r['id']}" for r in row["records"]),
         "probability": row["probability"]}
        for row in matching_sets["sets"]
    ]  # fmt: skip
    rows = {**tables, "differing": tables["differing"][:MOST_DIFFERENCES], "matching_sets": sets}
    return {name: markdown(rows[name], shown) for name, shown in (COLUMNS | columns).items()}


def covered(tables: Tables, kind: str, *, distorted: bool = False) -> dict[str, Any]:
    """How many intervals of N hold it, all levels together, and of the overlap counts what share.

    The bound of the share that the first may stand for is the upper end of Wilson's 95% interval.
    `distorted`: only at levels that distort.
    """
    rows = [
        row for row in tables["coverage"]
        if row["data"] == kind and (row["distortion"] or not distorted)
    ]  # fmt: skip
    total = sum(row["replicates"] for row in rows)
    share = sum(row["entities_covered"] * row["replicates"] for row in rows) / total
    z2 = 1.96**2 / total
    spread = math.sqrt(z2 * (share * (1 - share) + z2 / 4))
    upper = (share + z2 / 2 + spread) / (1 + z2)
    overlaps = sum(row["overlaps_covered"] * row["replicates"] for row in rows) / total
    return {"words": f"{round(share * total)} of {total}", "upper": upper, "overlaps": overlaps}


def simulated(rows: Sequence[Row]) -> dict[str, Any]:
    """How the error rates and N change with distortion."""
    by_level = {row["distortion"]: row for row in rows}
    least, middle, most = rows[0], by_level[0.01], rows[-1]
    x, y = (np.array([row[key] for row in rows]) for key in ("distortion", "fnr"))
    rest = y - np.polyval(np.polyfit(x, y, 1), x)

    def ratio(one: float, other: float) -> float:
        return one / max(other, 1e-12)

    return {
        "by_level": by_level,
        "least": least,
        "most": most,
        "straightness": 1 - ratio(float((rest**2).sum()), float(((y - y.mean()) ** 2).sum())),
        "fnr_rise": ratio(most["fnr"], middle["fnr"]),
        "fpr_rise": ratio(most["fpr"], middle["fpr"]),
        "gain": (most["fpr"] - least["fpr"]) / (middle["fpr"] - least["fpr"])
        if middle["fpr"] > least["fpr"]
        else None,
        "always_large": all(row["relative_error"] > 0 for row in rows if row["distortion"]),
        "low_error": max(abs(by_level[d]["relative_error"]) for d in (0.0, 0.0025, 0.005, 0.01)),
    }


def applied(tables: Tables) -> dict[str, Any]:
    """What was found in the survey, and why links are missing."""
    ours = {row["run"]: row for row in tables["application"] if row["source"] == "here"}
    missing = [(row["differ_in"], row["pairs"] * (1 - row["found"])) for row in tables["differing"]]
    moved = sum(lost for fields, lost in missing if "state" in fields or "office" in fields)
    far = [row for row in tables["differing"] if "," in row["differ_in"]]
    return {
        "found_far": sum(row["pairs"] * row["found"] for row in far)
        / max(sum(row["pairs"] for row in far), 1),
        "off": {run: off(run, tables["overlap"]) for run in ("SMERE", "SMERED")},
        "ours": ours,
        "exact": ours["equal records linked"],
        "movers": moved / max(sum(lost for _, lost in missing), 1e-12),
    }


def off(run: str, rows: Sequence[Row]) -> str:
    """Which counts of a run are too high and which too low, in a sentence."""
    own = [row for row in rows if row["run"] == run and row["truth"]]
    high = [row["waves"] for row in own if row["lower"] > row["truth"]]
    low = [row["waves"] for row in own if row["upper"] < row["truth"]]
    said = [f"too {word} for {'; '.join(waves)}" for word, waves in (("high", high), ("low", low))
            if waves]  # fmt: skip
    return f"{run}'s intervals are {' and '.join(said) or 'all right'}."


def changed(rows: Sequence[Row]) -> dict[str, Any]:
    """Which setting of each kind moves N most."""
    base = next(row for row in rows if row["setting"] == "rates Beta(5, 10)")
    kinds = {"the priors on distortion rates": "rates", "those on level probabilities": "levels",
             "those on the linkage": "prior", "the blocks": "blocks"}  # fmt: skip
    return {
        "base": base,
        "unsettled": [row["setting"] for row in rows if (row["rhat"] or 0) > UNSETTLED],
        "unblocked": next(row for row in rows if row["setting"] == "blocks: none"),
        "farthest": {
            words: max(
                (row for row in rows if row["setting"].startswith(kind)),
                key=lambda row: abs(row["entities"] - base["entities"]),
            )
            for words, kind in kinds.items()
        },
    }
