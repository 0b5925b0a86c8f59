"""Which records a proposal takes: how they are chosen, and how likely that choice is.

Every record and every candidate has a fixed weight. A record is chosen with probability
proportional to the sum of its candidates' weights, then one of its candidates proportional to that
candidate's own.
"""

import math

import numpy as np

from smered.kernels.jit import jit, jit_inline
from smered.kernels.rng import below, high, low
from smered.layout import COIN_SIDES, ZERO

__all__ = ["build_alias", "candidates_in", "choose_candidate", "choose_record", "log_chance"]
__all__ += ["uniform_partner"]


@jit
def build_alias(weight, cut, alias):
    """Prepare a block's records for choice by weight in constant time (Walker's alias method).

    Column i keeps record i if 32 random bits are below cut[i], and takes record alias[i] instead
    otherwise. weight (m,), cut (m,) uint32, alias (m,) int32, all of one block. Vose's order,
    with the two stacks kept in `alias` itself.
    """
    records = weight.shape[0]
    total = 0.0
    for i in range(records):
        total += weight[i]
    if total <= 0.0:
        for i in range(records):
            cut[i], alias[i] = np.uint32(4294967295), i
        return
    scale = records / total
    small, large = -1, -1  # heads of two chains of columns, linked through `alias`
    for i in range(records):
        weight[i] *= scale
        if weight[i] < 1.0:
            alias[i], small = small, i
        else:
            alias[i], large = large, i
    while small >= 0 and large >= 0:
        i, j = small, large
        small, after = alias[i], alias[j]
        cut[i] = np.uint32(min(weight[i] * 4294967296.0, 4294967295.0))
        alias[i] = j
        weight[j] -= 1.0 - weight[i]
        if weight[j] < 1.0:
            large = after
            alias[j], small = small, j
    for head in (small, large):  # what rounding leaves keeps its own column
        while head >= 0:
            i = head
            head = alias[i]
            cut[i], alias[i] = np.uint32(4294967295), i


@jit_inline
def choose_record(column_bits, word, start, records, layout):
    """Choose a record of a block by its weight."""
    column = start + below(column_bits, records)
    if low(word) <= layout.cut[column]:
        return column
    return start + np.int64(layout.alias[column])


@jit_inline
def choose_candidate(record, word, layout):
    """Choose one of a record's candidates by its weight."""
    first, last = layout.candidate_start[record], layout.candidate_start[record + 1]
    total = ZERO
    for i in range(first, last):
        total += layout.grade[i]
    target = below(high(word), total)
    while target >= layout.grade[first]:
        target -= layout.grade[first]
        first += 1
    return np.int64(layout.candidates[first])


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
def candidates_in(record, name, layout, clusters):
    """The weight of a record's candidates in the cluster `name`, and of all of them."""
    inside, total = ZERO, ZERO
    for i in range(layout.candidate_start[record], layout.candidate_start[record + 1]):
        weight = np.int64(layout.grade[i])
        total += weight
        if clusters.entity[layout.candidates[i]] == name:
            inside += weight
    return inside, total


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
        inside, total = candidates_in(record, name, layout, clusters)
        chance = share * chance + (1.0 - share) * inside / total
    return math.log(chance)
