"""How often a cluster shows each level of a field, as products of rho (equations 3 and 16)."""

import math

import numpy as np

from smered.kernels.jit import jit_inline
from smered.kernels.lookup import record_odds
from smered.layout import LOW_UNITS, UNITS

__all__ = ["add_whole", "tally_levels"]


@jit_inline
def add_to_tally(level, ratio, in_logs, distinct, scratch):
    """Multiply the tally of a level by 1 + ratio; return how many levels were seen."""
    held = scratch.tally[level]
    if held == 0.0:
        scratch.seen[distinct] = level
        distinct += 1
        scratch.tally[level] = math.log1p(ratio) if in_logs else 1.0 + ratio
    elif in_logs:
        scratch.tally[level] = held + math.log1p(ratio)
    else:
        scratch.tally[level] = held * (1.0 + ratio)
    return distinct


@jit_inline
def add_near(record, level, field, in_logs, distinct, layout, parameters, scratch):
    """Tally rho at a record's value and at all near it; return how many levels were seen.

    Values that no slip leads to stay untold: their rho is 1.
    """
    close = parameters.closeness[field]
    per_kernel = close / (1.0 - close)
    odds = record_odds(record, field, layout, parameters) * parameters.inverse_theta[level]
    if layout.sets[field]:
        for i in range(layout.near_start[level], layout.near_start[level + 1]):
            ratio = per_kernel * layout.near_kernel[i]
            if layout.near_copies[i]:
                ratio += odds / (1.0 - close)
            if ratio > 0.0:
                near = layout.near_level[i]
                distinct = add_to_tally(near, ratio, in_logs, distinct, scratch)
        return distinct
    own = odds / (1.0 - close) + per_kernel * layout.near_itself[level]
    distinct = add_to_tally(level, own, in_logs, distinct, scratch)
    for i in range(layout.near_start[level], layout.near_start[level + 1]):
        near = layout.near_level[i]
        ratio = per_kernel * layout.near_kernel[i]
        if near != level and ratio > 0.0:
            distinct = add_to_tally(near, ratio, in_logs, distinct, scratch)
    return distinct


@jit_inline
def tally_levels(first, size, field, layout, parameters, scratch):
    """Multiply rho over the members that show each level; return how many levels were seen.

    Members are scratch.members[first : first + size]. Leaves the levels in scratch.seen and, at
    each of them, prod rho (its logarithm for clusters above `small`) in scratch.tally, which the
    caller must set back to 0. rho > 1, so a tally of 0 always means "not seen yet".
    """
    in_logs = size > parameters.small
    distinct = 0
    for i in range(first, first + size):
        record = scratch.members[i]
        level = layout.values[record, field]
        if level < 0:
            continue
        if layout.near[field]:
            distinct = add_near(
                record, level, field, in_logs, distinct, layout, parameters, scratch
            )
        else:
            odds = record_odds(record, field, layout, parameters)
            ratio = odds * parameters.inverse_theta[level]
            distinct = add_to_tally(level, ratio, in_logs, distinct, scratch)
    return distinct


@jit_inline
def add_whole(value, sums):
    """Add a number to a sum in whole numbers."""
    scaled = value * UNITS
    whole = math.floor(scaled)
    sums[0] += np.int64(whole)
    sums[1] += np.int64((scaled - whole) * LOW_UNITS)
