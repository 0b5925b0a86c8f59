"""The report of a run: one HTML file that needs nothing else."""

import base64
import hashlib
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from markupsafe import Markup

import smered
from smered.evaluate import Evaluation
from smered.plan import make_plan
from smered.posterior import Posterior
from smered.posterior.estimate import Estimate
from smered.posterior.evidence import Shown, field_draw
from smered.report import figures
from smered.report.cards import as_script_data, collect_cards
from smered.store.disk import write_text
from smered.store.folder import RunFolder
from smered.summary import summarise_run

__all__ = ["make_report", "write_report"]

PAGE = Path(__file__).parent / "page"
CLUSTER_BYTES = 4_200_000  # of the page's at most 5 MB, for its clusters
MOST_CONFUSED = 20  # overlap patterns of a confusion matrix
NOTEWORTHY = 0.005  # of what a prior learned
DISTORTED_DRAWS = 2  # of each chain, in which distorted values are counted by file


def write_report(
    posterior: Posterior,
    path: Path,
    *,
    estimate: Estimate | None = None,
    evaluation: Evaluation | None = None,
    title: str = "Record linkage",
    mask: bool = False,
) -> Path:
    """Write the report of a posterior as one HTML file; `mask` leaves all field values out."""
    chosen = estimate or posterior.estimate()
    write_text(path, make_report(posterior, chosen, evaluation, title, mask))
    return path


def make_report(
    posterior: Posterior,
    estimate: Estimate,
    evaluation: Evaluation | None,
    title: str,
    mask: bool,
) -> str:
    """The page as text."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(PAGE), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    environment.filters |= {"count": "{:,.0f}".format, "mean": "{:,.1f}".format,
                            "share": "{:.1%}".format, "rate": "{:.4f}".format,
                            "brief": brief}  # fmt: skip
    summary = summarise_run(posterior, estimate)
    script, style = (Markup((PAGE / name).read_text()) for name in ("page.js", "page.css"))
    return environment.get_template("page.html").render(
        title=title,
        version=smered.__version__,
        written=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        mask=mask,
        script=script,
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        style=style,
        summary=summary,
        overlap=largest_patterns(summary["overlap"]),
        complete=evaluation is not None and evaluation.entities is not None,
        histogram=histogram(posterior),
        reliability=reliability_rows(evaluation) if evaluation else [],
        plan=make_plan(posterior.model, posterior.run.settings, look_for_pairs=False),
        prior=PRIORS.get(type(posterior.model.prior).__name__, "one of its own"),
        learned={
            name: row
            for name, row in summary["hyperparameters"].items()
            if row["upper"] >= NOTEWORTHY
        },
        figures=draw_figures(posterior, evaluation),
        by_file=distorted_by_file(posterior),
        evaluation=evaluation and evaluation.to_dict(),
        provenance=provenance(posterior, mask),
        data=Markup(
            as_script_data(collect_cards(posterior, estimate, bytes=CLUSTER_BYTES, mask=mask))
        ),
    )


def brief(value: float) -> str:
    """A number whose size is not known beforehand."""
    return f"{value:.3f}" if abs(value) < 10 else f"{value:,.1f}"


PRIORS = {
    "UniformLabels": "all labellings of the records are alike (the paper's)",
    "UniformPartitions": "all partitions of the records are alike",
    "Ewens": "Ewens, a Dirichlet process",
    "PitmanYor": "Pitman and Yor",
    "ClusterSizes": "how many records an entity has is learned from the data",
}


def draw_figures(posterior: Posterior, evaluation: Evaluation | None) -> dict[str, Markup]:
    """The figures as SVG, by name."""
    truth = evaluation.true_entities if evaluation and evaluation.entities else None
    overlap = {row.files: row.truth for row in evaluation.overlap} if evaluation else {}
    drawn = {
        "entities": figures.entities(posterior, truth),
        "probabilities": figures.match_probabilities(posterior),
    }
    if len(posterior.records.files) > 1:
        drawn["overlap"] = figures.overlap(posterior, overlap or None)
    if not posterior.model.exact.all():
        drawn["rates"] = figures.distortion_rates(posterior)
    if evaluation and 1 < len(evaluation.confusion.patterns) <= MOST_CONFUSED:
        drawn["confusion"] = figures.confusion(evaluation.confusion)
    if evaluation:
        drawn["reliability"] = figures.reliability(evaluation.reliability)
    return {name: Markup(figures.as_svg(figure, name)) for name, figure in drawn.items()}


def distorted_by_file(posterior: Posterior) -> list[dict[str, Any]]:
    """Share of the values of each file that are distorted, by field: posterior means.

    Given a draw's linkage and parameters the share is known (equation 10); a few draws of each
    chain are averaged. Nothing where there is a single file, or a file has no value in a field.
    """
    records, model = posterior.records, posterior.model
    files = len(records.files)
    if files < 2:
        return []
    spaced = np.linspace(0, posterior.draws - 1, DISTORTED_DRAWS).round().astype(int)
    draws = [(chain, int(draw)) for chain in range(posterior.chains) for draw in spaced]
    total = np.zeros((len(model.coded), files))
    for chain, draw in draws:
        entity = posterior.linkage(chain, draw)
        for column, part in enumerate(model.coded):
            shown = Shown.of(entity, np.arange(len(records)), column, model)
            if part.exact or not len(shown.owner):
                continue
            if model.changing[column]:
                z = posterior.distorted(chain, draw)[:, column]
                total[column] += np.bincount(records.file[z == 1], minlength=files)
                continue
            probability = shown.distorted(field_draw(posterior, column, chain, draw))
            total[column] += np.bincount(records.file[shown.record], probability, files)
    present = [np.bincount(records.file[part.codes >= 0], minlength=files) for part in model.coded]
    return [
        {
            "field": part.name,
            "shares": [
                float(share / (count * len(draws))) if count else None
                for share, count in zip(total[column], present[column], strict=True)
            ],
        }
        for column, part in enumerate(model.coded)
        if not part.exact
    ]


def largest_patterns(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The overlap patterns with most entities, in the order that they came in."""
    kept = sorted(rows, key=lambda row: -row["mean"])[: figures.MOST_PATTERNS]
    return [row for row in rows if row in kept]


def histogram(posterior: Posterior) -> list[tuple[float, float, int]]:
    """Pairs by match probability, in tenths."""
    counts, edges = np.histogram(figures.pair_probabilities(posterior), np.linspace(0, 1, 11))
    return list(zip(edges[:-1].tolist(), edges[1:].tolist(), counts.tolist(), strict=True))


def reliability_rows(evaluation: Evaluation) -> list[tuple[Any, ...]]:
    """Pairs by match probability, and how many of them match."""
    found = evaluation.to_dict()["reliability"]
    edges = found["edges"]
    return list(
        zip(edges[:-1], edges[1:], found["pairs"], found["predicted"], found["observed"],
            strict=True)
    )  # fmt: skip


def provenance(posterior: Posterior, mask: bool) -> list[tuple[str, str]]:
    """Where the numbers come from: versions, settings, inputs."""
    settings = posterior.run.settings
    found: dict[str, Any] = {
        "chains": posterior.chains,
        "draws of each": posterior.draws,
        "burn-in": settings.burn_in,
        "thinning": settings.thin,
        "seed": settings.seed,
    }
    if isinstance(posterior.run, RunFolder):
        content = posterior.run.content.model_dump()
        model = content["model"]
        for name in ("smered", "python", "numpy", "created"):
            found[name] = content.get(name, "")
        found |= {
            "duplicates allowed": model["duplicates"],
            "distortion rates": model["distortion"],
        }
        found |= {"prior": model["prior"], "pairs": model["pairs"]}
        found["fields"] = [without_values(field) if mask else field for field in model["fields"]]
        if not mask:  # places tell of accounts, and fingerprints could be compared with guesses
            found |= titled("source of", content["provenance"].get("sources"))
            found |= titled("fingerprint of", content.get("inputs"))
    return [(name, as_words(value)) for name, value in found.items()]


def titled(title: str, notes: Any) -> dict[str, Any]:
    """Notes by file, each under a title; nothing if they are of another kind."""
    return (
        {f"{title} {file}": note for file, note in notes.items()} if isinstance(notes, dict) else {}
    )


def without_values(field: dict[str, Any]) -> dict[str, Any]:
    """A field's description without the values that its prior names."""
    return field | {"mu": "by value"} if isinstance(field.get("mu"), dict) else field


def as_words(value: Any) -> str:
    """A value of JSON as a person would write it.

    >>> as_words({"type": "Ewens", "concentration": None})
    'type Ewens, concentration none'
    """
    if isinstance(value, dict):
        return ", ".join(f"{key} {as_words(part)}" for key, part in value.items())
    if isinstance(value, list | tuple):
        return "; ".join(as_words(part) for part in value)
    if value is None or isinstance(value, bool):
        return {None: "none", True: "yes", False: "no"}[value]
    return str(value)
