"""Where proposals go: the more doubtful a candidate, the more often it is proposed.

Grades are set once, from the state at the end of the burn-in, and stay: a choice of pairs that
does not depend on the linkage leaves the posterior untouched.
"""

import math

import numpy as np
from numpy.typing import NDArray

from smered.layout import (
    COIN_SIDES,
    GRADE_WEIGHT,
    LEAST_WEIGHT,
    TOP_GRADE,
    Bools,
    Floats,
    Int64s,
    Layout,
    Uint8s,
)

__all__ = ["even_grades", "grade_candidates", "with_grades"]


def even_grades(candidate_start: Int64s) -> Uint8s:
    """Grades that give every record about the same chance, however many candidates it has."""
    count = np.diff(candidate_start)
    grade = TOP_GRADE * (1 + np.log(np.maximum(count, 1)) / math.log(LEAST_WEIGHT))
    return np.repeat(np.maximum(grade, 0).astype(np.uint8), count)


def grade_candidates(evenness: NDArray[np.floating]) -> Uint8s:
    """Grades whose weights are the square roots of how even the odds of candidates are.

    Of all weights, these estimate a sum of independent indicators best: the variance of an
    indicator is about its evenness, and a proposal renews it whatever its evenness is.
    """
    with np.errstate(divide="ignore"):
        relative = np.log(np.sqrt(evenness)) / math.log(LEAST_WEIGHT)
    return np.ceil(TOP_GRADE * (1 - np.clip(relative, 0, 1))).astype(np.uint8)


def with_grades(layout: Layout, grade: Uint8s, informed: float, uniform: float) -> Layout:
    """The layout with other grades.

    A sweep then makes so many informed proposals, shared out over blocks by the grades, and so
    many uniform ones, shared out by records.
    """
    from smered.kernels.tuning import alias_blocks

    linkable = has_partners(layout)
    weight = record_weights(layout, grade, linkable)
    by_weight = np.add.reduceat(weight, layout.block_start[:-1])
    by_records = np.add.reduceat(linkable, layout.block_start[:-1], dtype=np.float64)
    cut, alias = np.empty(len(weight), np.uint32), np.empty(len(weight), np.int32)
    alias_blocks(layout.block_start, weight, cut, alias)
    share = uniform / (informed + uniform)
    proposals = by_records
    if by_weight.any():
        per_weight, per_record = 1 / by_weight.sum(), 1 / by_records.sum()
        mixed = (1 - share) * by_weight * per_weight + share * by_records * per_record
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


def record_weights(layout: Layout, grade: Uint8s, linkable: Bools) -> Floats:
    """The chance of each record (n,): its candidates' weights, or the mean of others' without any.

    A record that can be linked with none has no chance.
    """
    running = np.concatenate(([0.0], np.cumsum(GRADE_WEIGHT[grade])))
    weight = running[layout.candidate_start[1:]] - running[layout.candidate_start[:-1]]
    listed = np.diff(layout.candidate_start) > 0
    weight[~listed] = weight[listed].mean() if listed.any() else 1.0
    weight[~linkable] = 0.0
    return weight
