"""The second record of a pair: how it is chosen, and how likely that choice is."""

import math

import numpy as np

from smered.kernels.jit import jit_inline
from smered.kernels.rng import below
from smered.layout import COIN_SIDES

__all__ = ["candidates_in", "choose_partner", "log_chance"]


@jit_inline
def never_partners(record, layout):
    """The range of records that are never chosen with a record.

    Its own cell when its file holds no duplicates, otherwise itself alone.
    """
    cell = layout.cell[record]
    if layout.single[layout.cell_file[cell]]:
        return layout.cell_start[cell], layout.cell_start[cell + 1]
    return record, record + 1


@jit_inline
def uniform_partner(record, bits, start, end, layout):
    """Choose any record of the block that may share an entity with a record, or -1."""
    skip, skip_end = never_partners(record, layout)
    others = (end - start) - (skip_end - skip)
    if others <= 0:
        return -1
    partner = start + below(bits, others)
    return partner if partner < skip else partner + (skip_end - skip)


@jit_inline
def choose_partner(record, informed, bits, start, end, layout):
    """Choose one of a record's candidates if `informed`, any possible partner otherwise."""
    if informed:
        first = layout.candidate_start[record]
        candidates = layout.candidate_start[record + 1] - first
        return np.int64(layout.candidates[first + below(bits, candidates)])
    return uniform_partner(record, bits, start, end, layout)


@jit_inline
def candidates_in(record, name, layout, clusters):
    """The share of a record's candidates that are in the cluster `name`."""
    first, last = layout.candidate_start[record], layout.candidate_start[record + 1]
    inside = 0
    for i in range(first, last):
        if clusters.entity[layout.candidates[i]] == name:
            inside += 1
    return inside / max(last - first, 1)


@jit_inline
def log_chance(record, name, members, start, end, layout, clusters):
    """Log probability that a lone record's partner is one of `members` records of a cluster.

    All of them may share an entity with it. The partner is a candidate, or any possible partner
    with probability uniform_share / COIN_SIDES, or always if the record has no candidates.
    """
    skip, skip_end = never_partners(record, layout)
    chance = members / ((end - start) - (skip_end - skip))
    if layout.candidate_start[record + 1] > layout.candidate_start[record]:
        share = layout.uniform_share / COIN_SIDES
        listed = candidates_in(record, name, layout, clusters)
        chance = share * chance + (1.0 - share) * listed
    return math.log(chance)
