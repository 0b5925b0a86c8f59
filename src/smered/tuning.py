"""Where proposals go: the more doubtful a candidate, the more often it is proposed.

Grades come from states of the second half of the burn-in, and stay from its end on: a choice of
pairs that does not depend on the linkage leaves the posterior untouched.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from smered.layout import (
    COIN_SIDES,
    TOP_GRADE,
    Bools,
    Floats,
    Int64s,
    Layout,
    Uint8s,
)

__all__ = ["Totals", "add_totals", "count_totals", "even_grades", "grade_candidates"]
__all__ += ["with_grades", "without_idle"]


def even_grades(candidate_start: Int64s) -> Uint8s:
    """Grades that give every record about the same chance, however many candidates it has."""
    count = np.diff(candidate_start)
    grade = np.maximum(TOP_GRADE // np.maximum(count, 1), 1)
    return np.repeat(grade.astype(np.uint8), count)


def grade_candidates(
    evenness: NDArray[np.floating], grade: Uint8s | None = None, before: int = 0
) -> Uint8s:
    """Grades that are the square roots of how even the odds of candidates are, on average.

    `evenness` is that of one state, `grade` that of so many states `before`.

    Of all weights, these estimate a sum of independent indicators best: the variance of an
    indicator is about its evenness, and a proposal renews it whatever its evenness is.
    """
    mean = evenness.astype(np.float32)  # one of many candidates: worked on in place
    if grade is not None and before:
        mean += (before * (np.arange(TOP_GRADE + 1) / TOP_GRADE) ** 2).astype(np.float32)[grade]
        mean /= before + 1
    np.sqrt(mean, out=mean)
    mean *= TOP_GRADE
    return np.rint(mean, out=mean).astype(np.uint8)


def without_idle(layout: Layout, grade: Uint8s) -> tuple[Layout, Uint8s]:
    """The layout without the candidates of grade 0, and the other grades."""
    kept = grade > 0
    counts = sum_by_record(kept, layout.candidate_start)
    shorter = layout._replace(
        candidate_start=np.concatenate(([0], np.cumsum(counts))),
        candidates=layout.candidates[kept],
    )
    return shorter, grade[kept]


def sum_by_record(values: NDArray[np.generic], candidate_start: Int64s) -> Int64s:
    """Sum what belongs to candidates over each record's list (n,)."""
    sums = np.zeros(len(candidate_start) - 1, np.int64)
    listed = np.flatnonzero(np.diff(candidate_start))
    if len(listed):
        sums[listed] = np.add.reduceat(values, candidate_start[listed], dtype=np.int64)
    return sums


class Totals(NamedTuple):
    """What shares of proposals depend on, counted over records."""

    listed: int  # weights of records with candidates
    unlisted: int  # records without candidates that may be linked
    linkable: int  # records that may be linked
    least: int  # weight of a record with candidates, 0 if there is none


def count_totals(layout: Layout, grade: Uint8s) -> Totals:
    """Count the records of a layout."""
    linkable = has_partners(layout)
    weight = sum_by_record(grade, layout.candidate_start)
    listed = np.diff(layout.candidate_start) > 0
    return Totals(
        listed=int(weight[listed & linkable].sum()),
        unlisted=int((~listed & linkable).sum()),
        linkable=int(linkable.sum()),
        least=int(weight[listed].min()) if listed.any() else 0,
    )


def add_totals(parts: Sequence[Totals]) -> Totals:
    """The totals of several parts of the records."""
    listed, unlisted, linkable, least = zip(*parts, strict=True)
    return Totals(
        sum(listed), sum(unlisted), sum(linkable), min((one for one in least if one), default=0)
    )


def with_grades(
    layout: Layout, grade: Uint8s, informed: float, uniform: float, totals: Totals | None = None
) -> Layout:
    """The layout with other grades.

    A sweep then makes so many informed proposals, shared out over blocks by the grades, and so
    many uniform ones; `totals` are those of all records, where the layout holds some of them.
    """
    from smered.kernels.tuning import alias_blocks

    totals = totals or count_totals(layout, grade)
    linkable = has_partners(layout)
    weight = record_weights(layout, grade, linkable, max(totals.least, 1))
    by_weight = np.add.reduceat(weight, layout.block_start[:-1])
    by_records = np.add.reduceat(linkable, layout.block_start[:-1], dtype=np.float64)
    cut, alias = np.empty(len(weight), np.uint32), np.empty(len(weight), np.int32)
    alias_blocks(layout.block_start, weight, cut, alias)
    share = uniform / (informed + uniform)
    proposals = by_records
    total_weight = totals.listed + totals.unlisted * max(totals.least, 1)
    if total_weight:
        mixed = (1 - share) * by_weight / total_weight + share * by_records / totals.linkable
        proposals = (informed + uniform) * mixed
    return layout._replace(
        grade=grade, cut=cut, alias=alias, proposals=proposals,
        uniform_share=round(share * COIN_SIDES),
    )  # fmt: skip


def has_partners(layout: Layout) -> Bools:
    """Which records may share an entity with another one (n,)."""
    block_sizes = np.diff(layout.block_start)
    never = np.where(layout.single[layout.cell_file], np.diff(layout.cell_start), 1)
    found: Bools = np.repeat(block_sizes, block_sizes) > never[layout.cell]
    return found


def record_weights(layout: Layout, grade: Uint8s, linkable: Bools, least: int) -> Floats:
    """The chance of each record (n,): its candidates' weights, or the least of others' without any.

    A record that can be linked with none has no chance.
    """
    weight = sum_by_record(grade, layout.candidate_start).astype(np.float64)
    weight[np.diff(layout.candidate_start) == 0] = least
    weight[~linkable] = 0.0
    return weight
