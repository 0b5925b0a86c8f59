"""Metrics of one linkage against another: pure functions of label vectors, in linear time.

A linkage is one label per record, of any kind; only which labels are equal matters.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import ArrayLike

from smered.errors import DataError
from smered.layout import Bools, Floats, Int32s, Int64s
from smered.posterior.traces import file_patterns

__all__ = ["Confusion", "Links", "Reliability", "Scores", "adjusted_rand", "b_cubed", "clusters"]
__all__ += ["links", "overlap_confusion", "pairs_within", "reliability"]
__all__ += ["variation_of_information"]


@dataclass(frozen=True)
class Links:
    """Pairs of records: rightly linked, wrongly linked, and missed (counts or their means)."""

    true: float
    false: float
    missing: float

    @property
    def fnr(self) -> float:
        """False negative rate: missing links over the links in truth."""
        return self.missing / (self.true + self.missing) if self.true + self.missing else 0.0

    @property
    def fpr(self) -> float:
        """The paper's false positive rate: false links over the links in truth; may exceed 1.

        Not a number if there are false links and none in truth.
        """
        if self.true + self.missing:
            return self.false / (self.true + self.missing)
        return math.nan if self.false else 0.0

    @property
    def precision(self) -> float:
        """True links over the links found."""
        return self.true / (self.true + self.false) if self.true + self.false else 1.0

    @property
    def recall(self) -> float:
        """True links over the links in truth."""
        return 1.0 - self.fnr

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall."""
        total = 2 * self.true + self.false + self.missing
        return 2 * self.true / total if total else 1.0


class Scores(NamedTuple):
    """Precision and recall."""

    precision: float
    recall: float

    @property
    def f1(self) -> float:
        """Their harmonic mean."""
        both = self.precision + self.recall
        return 2 * self.precision * self.recall / both if both else 0.0


class Crossed(NamedTuple):
    """Two linkages of the same records, crossed: the cells that are not empty."""

    both: Int64s  # records of each cell
    rows: Int64s  # records of the cell's cluster in the first linkage
    columns: Int64s  # records of the cell's cluster in the second
    row_sizes: Int64s  # records of each cluster of the first linkage
    column_sizes: Int64s  # and of the second


def number_labels(labels: ArrayLike | pa.Array) -> Int64s:
    """Number labels of any kind from 0 by first appearance."""
    array = labels if isinstance(labels, pa.Array | pa.ChunkedArray) else pa.array(labels)
    if array.null_count:
        row = pc.index(pc.is_null(array), True).as_py() + 1
        raise DataError(f"label {row} is missing; every record needs a label")
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    return array.dictionary_encode().indices.to_numpy(zero_copy_only=False).astype(np.int64)


def cross(estimate: ArrayLike, truth: ArrayLike) -> Crossed:
    """Cross two linkages."""
    one, two = number_labels(estimate), number_labels(truth)
    if len(one) != len(two):
        raise DataError(f"{len(one)} labels against {len(two)}; both need one for each record")
    row_sizes, column_sizes = np.bincount(one), np.bincount(two)
    cell = number_labels(one * max(len(column_sizes), 1) + two)
    first = np.full(int(cell.max(initial=-1)) + 1, len(cell), np.int64)
    np.minimum.at(first, cell, np.arange(len(cell)))
    return Crossed(
        np.bincount(cell), row_sizes[one[first]], column_sizes[two[first]], row_sizes, column_sizes
    )


def choose_two(sizes: Int64s) -> int:
    """Pairs within groups of these sizes."""
    return int((sizes * (sizes - 1) // 2).sum())


def pairs_within(*labels: ArrayLike) -> int:
    """Pairs of records that have the same label in every one of the vectors.

    >>> pairs_within([1, 1, 1, 2])
    3
    """
    codes = number_labels(labels[0])
    for others in labels[1:]:
        number = number_labels(others)
        codes = number_labels(codes * (int(number.max(initial=0)) + 1) + number)
    return choose_two(np.bincount(codes))


def links(estimate: ArrayLike, truth: ArrayLike) -> Links:
    """Pairs of records that are rightly linked, wrongly linked and missed.

    >>> links([1, 1, 2, 2], [1, 1, 1, 2])
    Links(true=1, false=1, missing=2)
    """
    crossed = cross(estimate, truth)
    both = choose_two(crossed.both)
    return Links(
        both, choose_two(crossed.row_sizes) - both, choose_two(crossed.column_sizes) - both
    )


def b_cubed(estimate: ArrayLike, truth: ArrayLike) -> Scores:
    """B-cubed: the mean over records of how much of its cluster is right, and of its entity found.

    >>> b_cubed([1, 1, 2, 2], [1, 1, 1, 2])
    Scores(precision=0.75, recall=0.6666666666666666)
    """
    crossed = cross(estimate, truth)
    n = max(int(crossed.both.sum()), 1)
    square = crossed.both.astype(float) ** 2
    return Scores(
        float((square / crossed.rows).sum() / n), float((square / crossed.columns).sum() / n)
    )


def clusters(estimate: ArrayLike, truth: ArrayLike) -> Scores:
    """Entities recovered exactly: as a share of the estimated ones, and of the true ones.

    >>> clusters([1, 1, 2, 3], [1, 1, 2, 2])
    Scores(precision=0.3333333333333333, recall=0.5)
    """
    crossed = cross(estimate, truth)
    same = int(((crossed.both == crossed.rows) & (crossed.both == crossed.columns)).sum())
    return Scores(same / max(len(crossed.row_sizes), 1), same / max(len(crossed.column_sizes), 1))


def adjusted_rand(estimate: ArrayLike, truth: ArrayLike) -> float:
    """The adjusted Rand index: 1 for equal linkages, 0 on average for random ones.

    >>> adjusted_rand([1, 1, 2, 2], [1, 1, 2, 2])
    1.0
    """
    crossed = cross(estimate, truth)
    n = int(crossed.both.sum())
    both, one, two = map(choose_two, (crossed.both, crossed.row_sizes, crossed.column_sizes))
    expected = one * two / max(n * (n - 1) / 2, 1)
    most = (one + two) / 2
    return (both - expected) / (most - expected) if most != expected else 1.0


def variation_of_information(estimate: ArrayLike, truth: ArrayLike) -> float:
    """Variation of information in nats: 0 for equal linkages.

    >>> round(variation_of_information([1, 1, 1, 1], [1, 1, 2, 2]), 6)
    0.693147
    """
    crossed = cross(estimate, truth)
    count = crossed.both.astype(float)
    n = max(count.sum(), 1.0)
    information = -count @ (np.log(count / crossed.rows) + np.log(count / crossed.columns)) / n
    return float(max(information, 0.0))


@dataclass(frozen=True)
class Confusion:
    """Records by the files that hold their estimated entity (rows) and their true one (columns)."""

    patterns: tuple[tuple[str, ...], ...]
    records: Int64s  # (patterns, patterns)

    @property
    def row_sums(self) -> Int64s:
        """Records by estimated pattern."""
        return self.records.sum(axis=1)


def overlap_confusion(
    estimate: ArrayLike, truth: ArrayLike, file: ArrayLike, files: Sequence[str]
) -> Confusion:
    """Cross the overlap patterns of an estimate with those of the truth, counted in records.

    `file` is the number of each record's file in `files`.

    >>> overlap_confusion([1, 1, 2], [1, 2, 2], [0, 1, 1], ["a", "b"]).patterns
    (('a',), ('b',), ('a', 'b'))
    """
    number = np.asarray(file, np.int32)
    found = [record_patterns(number_labels(labels), number, files) for labels in (estimate, truth)]
    seen = {
        pattern for patterns, kind in found for pattern in (patterns[k] for k in np.unique(kind))
    }
    order = sorted(seen, key=lambda p: (len(p), [files.index(f) for f in p]))
    rows, columns = (
        np.array([order.index(p) if p in seen else -1 for p in patterns])[kind]
        for patterns, kind in found
    )
    table = np.bincount(rows * len(order) + columns, minlength=len(order) ** 2)
    return Confusion(tuple(order), table.reshape(len(order), len(order)))


def record_patterns(
    labels: Int64s, file: Int32s, files: Sequence[str]
) -> tuple[list[tuple[str, ...]], Int64s]:
    """The sets of files that hold entities, and for each record the number of its entity's set."""
    member = np.argsort(labels, kind="stable")
    start = np.concatenate(([0], np.cumsum(np.bincount(labels))))
    patterns, kind = file_patterns(member, start, file, files)
    return patterns, kind[labels].astype(np.int64)


@dataclass(frozen=True)
class Reliability:
    """Pairs by their match probability, and how many of them match in truth."""

    edges: Floats  # (bins + 1,)
    pairs: Int64s  # (bins,)
    predicted: Floats  # (bins,) mean probability, nan in an empty bin
    observed: Floats  # (bins,) share of true matches, nan in an empty bin
    error: float  # mean over pairs of |predicted - observed| of their bin


def reliability(probability: Floats, matches: Bools, bins: int = 10) -> Reliability:
    """Compare probabilities of pairs with how often such pairs match.

    >>> reliability(np.array([0.9, 0.9, 0.1]), np.array([True, False, False])).error
    0.3
    """
    edges = np.linspace(0, 1, bins + 1)
    place = np.minimum((np.asarray(probability) * bins).astype(np.int64), bins - 1)
    pairs = np.bincount(place, minlength=bins)
    with np.errstate(invalid="ignore"):
        predicted = np.bincount(place, probability, minlength=bins) / pairs
        observed = np.bincount(place, matches, minlength=bins) / pairs
    gap = np.abs(np.nan_to_num(predicted - observed))
    return Reliability(edges, pairs, predicted, observed, float(gap @ pairs / max(pairs.sum(), 1)))
