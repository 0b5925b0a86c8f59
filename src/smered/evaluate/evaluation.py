"""A posterior against the truth: everything that the paper reports, and calibration."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import ArrayLike

from smered.errors import DataError
from smered.evaluate.metrics import (
    Confusion,
    Links,
    Reliability,
    Scores,
    adjusted_rand,
    b_cubed,
    clusters,
    links,
    number_labels,
    overlap_confusion,
    pairs_within,
    record_patterns,
    reliability,
    variation_of_information,
)
from smered.layout import Bools, Floats, Int64s
from smered.posterior import Posterior
from smered.posterior.estimate import Estimate
from smered.posterior.traces import Summary, summarise
from smered.store.lifetimes import Lifetimes

__all__ = ["Evaluation", "OverlapRow", "evaluate", "posterior_links"]

UNKNOWN = -1


@dataclass(frozen=True)
class OverlapRow:
    """Entities in exactly these files: in truth, and their posterior."""

    files: tuple[str, ...]
    truth: int
    posterior: Summary

    @property
    def relative_error(self) -> float | None:
        """Posterior mean over truth, less one; none if there are no such entities in truth."""
        return self.posterior.mean / self.truth - 1 if self.truth else None


@dataclass(frozen=True)
class Evaluation:
    """How a posterior and its point estimate compare with the truth.

    `entities`, `true_entities` and `overlap` are compared only if the truth of every record is
    known; everything else looks at the records whose truth is.
    """

    records: int
    known: int
    posterior: Links  # posterior means
    rates: dict[str, Summary]  # posteriors of fnr, fpr, precision, recall, f1
    estimate: Links
    b_cubed: Scores
    clusters: Scores
    adjusted_rand: float
    variation_of_information: float
    true_entities: int
    entities: Summary | None
    overlap: tuple[OverlapRow, ...]
    confusion: Confusion
    reliability: Reliability
    never_linked: int  # true pairs that no draw links

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values that JSON holds."""
        return {
            "records": self.records,
            "records_with_truth": self.known,
            "posterior": link_values(self.posterior)
            | {"intervals": {name: or_none([s.lower, s.upper]) for name, s in self.rates.items()}},
            "estimate": link_values(self.estimate)
            | {
                "b_cubed": score_values(self.b_cubed),
                "clusters": score_values(self.clusters),
                "adjusted_rand": self.adjusted_rand,
                "variation_of_information": self.variation_of_information,
            },
            "entities": {"truth": self.true_entities}
            | ({} if self.entities is None else posterior_values(self.entities)),
            "overlap": [
                {"files": list(row.files), "truth": row.truth}
                | posterior_values(row.posterior)
                | {"relative_error": row.relative_error}
                for row in self.overlap
            ],
            "confusion": {
                "patterns": [list(pattern) for pattern in self.confusion.patterns],
                "records": self.confusion.records.tolist(),
                "row_sums": self.confusion.row_sums.tolist(),
            },
            "reliability": {
                "edges": self.reliability.edges.tolist(),
                "pairs": self.reliability.pairs.tolist(),
                "predicted": or_none(self.reliability.predicted),
                "observed": or_none(self.reliability.observed),
                "calibration_error": self.reliability.error,
                "true_pairs_never_linked": self.never_linked,
            },
        }


def link_values(found: Links) -> dict[str, float | None]:
    """Counts and rates of links."""
    names = ("true", "false", "missing", "fnr", "fpr", "precision", "recall", "f1")
    return dict(zip(names, or_none([getattr(found, name) for name in names]), strict=True))


def score_values(found: Scores) -> dict[str, float]:
    """Precision, recall and F1."""
    return {"precision": found.precision, "recall": found.recall, "f1": found.f1}


def posterior_values(found: Summary) -> dict[str, float]:
    """Mean and interval."""
    return {"mean": found.mean, "lower": found.lower, "upper": found.upper}


def or_none(values: Iterable[float]) -> list[float | None]:
    """Numbers, with none for those that are not."""
    return [None if np.isnan(value) else float(value) for value in values]


def evaluate(
    posterior: Posterior, truth: ArrayLike | pa.Array, estimate: Estimate | None = None
) -> Evaluation:
    """Compare a posterior, and one estimate made from it, with the truth.

    `truth` has one label per record, null where it is unknown.
    """
    label = code_truth(truth, len(posterior.records))
    known = np.flatnonzero(label != UNKNOWN)
    if not len(known):
        raise DataError("the truth is unknown for every record")
    records, chosen = posterior.records, estimate or posterior.estimate()
    mine, right = chosen.entity[known], label[known]
    by_draw = links_by_draw(posterior, label)
    one, two, together = posterior.sets.pairs
    both = (label[one] != UNKNOWN) & (label[two] != UNKNOWN)
    probability = together[both] / (posterior.chains * posterior.draws)
    matches: Bools = label[one[both]] == label[two[both]]
    complete = len(known) == len(records)
    return Evaluation(
        records=len(records),
        known=len(known),
        posterior=mean_links(by_draw),
        rates={name: summarise(values) for name, values in rates_by_draw(by_draw).items()},
        estimate=links(mine, right),
        b_cubed=b_cubed(mine, right),
        clusters=clusters(mine, right),
        adjusted_rand=adjusted_rand(mine, right),
        variation_of_information=variation_of_information(mine, right),
        true_entities=len(np.unique(right)),
        entities=posterior.entities() if complete else None,
        overlap=overlap_rows(posterior, label) if complete else (),
        confusion=overlap_confusion(mine, right, records.file[known], records.files),
        reliability=reliability(probability, matches),
        never_linked=pairs_within(right) - int(matches.sum()),
    )


def code_truth(truth: ArrayLike | pa.Array, records: int) -> Int64s:
    """Numbers for the labels of the truth, -1 where it is unknown."""
    array = truth if isinstance(truth, pa.Array | pa.ChunkedArray) else pa.array(truth)
    if len(array) != records:
        raise DataError(f"the truth has {len(array)} labels for {records} records")
    label = np.full(records, UNKNOWN, np.int64)
    given = pc.is_valid(array).to_numpy(zero_copy_only=False)
    label[given] = number_labels(array.drop_null())
    return label


def posterior_links(posterior: Posterior, truth: ArrayLike | pa.Array) -> Links:
    """Posterior means of true, false and missing links (the paper's table)."""
    return mean_links(links_by_draw(posterior, code_truth(truth, len(posterior.records))))


def mean_links(counts: tuple[Floats, Floats, int]) -> Links:
    """Posterior means of links counted draw by draw."""
    true, linked, in_truth = counts
    mean = float(true.mean())
    return Links(mean, float(linked.mean()) - mean, in_truth - mean)


def links_by_draw(posterior: Posterior, label: Int64s) -> tuple[Floats, Floats, int]:
    """True links and all links in every draw (chains, draws), and the links in truth."""
    lifetimes = posterior.lifetimes
    found, right = linked_pairs(lifetimes, label)
    shape = (posterior.chains, posterior.draws + 1)
    row = lifetimes.chain.astype(np.int64) * shape[1]

    def total(weight: Int64s) -> Floats:
        size = shape[0] * shape[1]
        begun = np.bincount(row + lifetimes.first, weight.astype(float), minlength=size)
        ended = np.bincount(row + lifetimes.last + 1, weight.astype(float), minlength=size)
        return np.cumsum((begun - ended).reshape(shape), axis=1)[:, :-1]

    return total(right), total(found), pairs_within(label[label != UNKNOWN])


def rates_by_draw(counts: tuple[Floats, Floats, int]) -> dict[str, Floats]:
    """The rates of `Links` in every draw."""
    true, linked, in_truth = counts
    truly = max(in_truth, 1)
    return {
        "fnr": 1 - true / truly if in_truth else np.zeros_like(true),
        "fpr": np.where((linked > true) & (in_truth == 0), np.nan, (linked - true) / truly),
        "precision": np.where(linked > 0, true / np.maximum(linked, 1), 1.0),
        "recall": true / truly if in_truth else np.ones_like(true),
        "f1": np.where(linked + in_truth > 0, 2 * true / np.maximum(linked + in_truth, 1), 1.0),
    }


def linked_pairs(lifetimes: Lifetimes, label: Int64s) -> tuple[Int64s, Int64s]:
    """Pairs of records with known truth in each cluster, and how many are true links (L,)."""
    truth = label[lifetimes.member]
    known = truth != UNKNOWN
    labels = int(label.max()) + 1
    key = (lifetimes.owner * labels + truth)[known]
    key.sort()
    first = np.flatnonzero(np.append(True, key[1:] != key[:-1])) if len(key) else key
    together = np.diff(np.append(first, len(key)))
    right = np.bincount(
        key[first] // labels, together * (together - 1) // 2, minlength=len(lifetimes)
    )
    size = np.add.reduceat(known, lifetimes.start[:-1], dtype=np.int64)
    return size * (size - 1) // 2, right.astype(np.int64)


def overlap_rows(posterior: Posterior, label: Int64s) -> tuple[OverlapRow, ...]:
    """Entities by the files that hold them, in truth and in the posterior."""
    records, found = posterior.records, posterior.overlap()
    patterns, kind = record_patterns(label, records.file, records.files)
    first = np.unique(label, return_index=True)[1]
    counts = np.bincount(kind[first], minlength=len(patterns)).tolist()
    truth = {pattern: count for pattern, count in zip(patterns, counts, strict=True) if count}
    every = sorted({*truth, *found.kinds}, key=lambda p: (len(p), p))
    return tuple(OverlapRow(pattern, truth.get(pattern, 0), found[pattern]) for pattern in every)
