"""How doubtful each candidate is: where proposals are worth making."""

import math

import numpy as np

from smered.kernels.clusters import (
    build_rings,
    gather,
    log_kind_weight,
    same_file_member,
    step_of,
    weigh_clusters,
)
from smered.kernels.jit import entry, jit_inline
from smered.kernels.likelihood import log_weight
from smered.kernels.moves import log_change, log_number
from smered.kernels.partners import build_alias
from smered.kernels.transfers import arrange_transfer
from smered.layout import UNIT, ZERO

__all__ = ["alias_blocks", "measure_evenness"]

PLAUSIBLE = 0.002  # evenness of pairs that would be linked if there were no other records


@entry
def alias_blocks(block_start, weight, cut, alias):
    """Build the alias table of every block; overwrites weight (n,)."""
    for block in range(block_start.shape[0] - 1):
        start, end = block_start[block], block_start[block + 1]
        build_alias(weight[start:end], cut[start:end], alias[start:end])


@jit_inline
def log_odds(
    record, candidate, block, log_unit, free, layout, parameters, prior, clusters, scratch
):
    """Log odds of the record being with the candidate, everything else staying as it is.

    Up to its sign, and without Hastings factors: where the two are together, of the record leaving
    its cluster; where the record is alone, of joining the candidate's; else, of a transfer there.
    """
    one, two = np.int64(clusters.entity[record]), np.int64(clusters.entity[candidate])
    rival = np.int64(-1) if one == two else same_file_member(record, two, layout, clusters)
    if one == two:
        middle, size, more = UNIT, gather(record, ZERO, clusters, scratch), 1  # the record first
        free = max(free, 1) if free >= 0 else free
    elif clusters.size[one] == 1 and rival < 0:
        size = gather(two, gather(record, ZERO, clusters, scratch), clusters, scratch)
        middle, more = size, -1
    else:
        middle, size = arrange_transfer(record, rival, two, clusters, scratch)
        more = 0
    log_ratio, _, _ = log_change(
        one, two, middle, size, block, layout, parameters, prior, clusters, scratch
    )
    return log_ratio + log_number(more, log_unit, free)


@jit_inline
def log_odds_alone(record, candidate, block, log_unit, layout, parameters, prior, scratch):
    """Log odds of a record being with the candidate if both are with no other record."""
    scratch.members[0], scratch.members[1] = record, candidate
    log_ratio = log_weight(ZERO, UNIT + UNIT, layout, parameters, scratch) - log_unit
    one, two = step_of(record, layout), step_of(candidate, layout)
    log_ratio += log_kind_weight(one + two, block, layout, prior)
    return (
        log_ratio
        - log_kind_weight(one, block, layout, prior)
        - log_kind_weight(two, block, layout, prior)
    )


@entry
def measure_evenness(first, last, layout, parameters, prior, clusters, scratch, evenness):
    """Write exp(-|log odds|) of every candidate of blocks first..last-1 to evenness.

    It is 1 where a proposal is as likely to be accepted as to be undone, near 0 where the answer
    is certain either way. Two records that are surely linked are not quite as certain: when other
    links have parted them, a proposal must bring them together again.
    """
    for block in range(first, last):
        start, end = layout.block_start[block], layout.block_start[block + 1]
        build_rings(start, end, layout, clusters)
        weigh_clusters(start, end, layout, parameters, clusters, scratch)
        log_unit, free = prior.log_unit[block], prior.free[block]
        for record in range(start, end):
            for i in range(layout.candidate_start[record], layout.candidate_start[record + 1]):
                odds = log_odds(
                    record, layout.candidates[i], block, log_unit, free, layout, parameters,
                    prior, clusters, scratch,
                )  # fmt: skip
                evenness[i] = math.exp(-abs(odds))
                alone = log_odds_alone(
                    record, layout.candidates[i], block, log_unit, layout, parameters, prior,
                    scratch,
                )  # fmt: skip
                evenness[i] = max(evenness[i], PLAUSIBLE * math.exp(min(alone, 0.0)))
