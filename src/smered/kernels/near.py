"""Fields whose distorted values fall near the true one (equations 14 to 16).

psi(v | y) = phi_v c_v c_y e(v, y), with e - 1 nothing but between neighbours. The weight of a
cluster, over the likelihoods of its s values alone, is

    prod_r (beta_r c_{x_r}) * [ sum over all y of phi_y c_y**s
                                + sum over y near of phi_y c_y**s (prod_r rho_ry - 1) ]
    rho_ry = e(x_r, y) + 1(x_r = y) odds_r / (phi_y c_y**2)
"""

import math

import numpy as np

from smered.kernels.jit import jit, jit_inline
from smered.kernels.lookup import level_at, record_odds
from smered.kernels.rng import uniform, words
from smered.layout import MOST_FAR

__all__ = ["draw_near", "log_near_weight", "near_pair_weight"]

LEAST_TALLY = 1e-300  # a tally of nothing means "not seen yet"
ROUNDING = 1e-12


@jit_inline
def near_pair_weight(level, other, rate, other_rate, field, layout, parameters):
    """The weight of two values in one field (equation 15)."""
    i, end = layout.near_start[level], layout.near_start[level + 1]
    j, other_end = layout.near_start[other], layout.near_start[other + 1]
    excess, common = 0.0, 0.0
    while i < end and j < other_end:
        one, two = layout.near_level[i], layout.near_level[j]
        if one < two:
            i += 1
        elif two < one:
            j += 1
        else:
            if one == other:
                excess = layout.near_excess[i]
            weight = parameters.theta[one] * layout.balance[one] * layout.balance[one]
            common += weight * layout.near_excess[i] * layout.near_excess[j]
            i += 1
            j += 1
    both = layout.near_second[level] + layout.near_second[other] + common
    both += math.exp(layout.log_far[field, 2])
    one_distorted = rate * (1.0 - other_rate) + other_rate * (1.0 - rate)
    weight = one_distorted * (1.0 + excess) + rate * other_rate * both
    weight *= layout.balance[level] * layout.balance[other]
    if level == other:
        weight += (1.0 - rate) * (1.0 - other_rate) * parameters.inverse_theta[level]
    return weight


@jit_inline
def tally_near(first, size, field, layout, parameters, scratch):
    """Multiply rho over the members at every level near one of them; return how many these are.

    As `tally_levels`: leaves the levels in scratch.seen and prod rho (its logarithm for clusters
    above `small`) in scratch.tally, which the caller must set back to 0. Returns also the number
    of values and the sum of log(beta c) over them.
    """
    in_logs = size > parameters.small
    distinct, present, log_rates = 0, 0, 0.0
    for i in range(first, first + size):
        record = scratch.members[i]
        level = layout.values[record, field]
        if level < 0:
            continue
        odds = record_odds(record, field, layout, parameters)
        balance = layout.balance[level]
        copied = odds * parameters.inverse_theta[level] / (balance * balance)
        log_rates += math.log(balance / (1.0 + odds))
        present += 1
        for j in range(layout.near_start[level], layout.near_start[level + 1]):
            near = layout.near_level[j]
            ratio = 1.0 + layout.near_excess[j]
            if near == level:
                ratio += copied
            held = scratch.tally[near]
            if held == 0.0:
                scratch.seen[distinct] = near
                distinct += 1
                held = 0.0 if in_logs else 1.0
            held = held + math.log(ratio) if in_logs else held * ratio
            scratch.tally[near] = held if held != 0.0 else LEAST_TALLY
    return distinct, present, log_rates


@jit_inline
def log_far(present, field, layout, parameters):
    """Log of the sum over all levels of phi c**present; a table, but for the largest clusters."""
    if present <= MOST_FAR:
        return layout.log_far[field, present]
    first, last = layout.field_start[field], layout.field_start[field + 1]
    largest = 0.0
    for level in range(first, last):
        largest = max(largest, layout.balance[level])
    total = 0.0
    for level in range(first, last):
        total += parameters.theta[level] * (layout.balance[level] / largest) ** present
    return math.log(total) + present * math.log(largest)


@jit
def weigh_near(first, size, field, layout, parameters, scratch):
    """Weigh the levels that may be true, in scratch.tally; return how many, and three numbers.

    The weight of all levels that are near no member, the logarithm by which all weights were
    divided, and the sum of log(beta c); and how many values there are.
    """
    distinct, present, log_rates = tally_near(first, size, field, layout, parameters, scratch)
    in_logs = size > parameters.small
    top = log_far(present, field, layout, parameters) if present > 0 else 0.0
    if in_logs:
        for i in range(distinct):
            level = scratch.seen[i]
            own = math.log(parameters.theta[level]) + present * math.log(layout.balance[level])
            scratch.tally[level] += own
            top = max(top, scratch.tally[level])
    far = math.exp(log_far(present, field, layout, parameters) - top) if present > 0 else 1.0
    least = far * ROUNDING
    for i in range(distinct):
        level = scratch.seen[i]
        if in_logs:
            own = math.log(parameters.theta[level]) + present * math.log(layout.balance[level])
            far -= math.exp(own - top)
            scratch.tally[level] = math.exp(scratch.tally[level] - top)
        else:
            own = parameters.theta[level] * math.exp(-top)
            for _ in range(present):
                own *= layout.balance[level]
            far -= own
            scratch.tally[level] *= own
    if far < least:
        far = 0.0  # every level is near a member
    return distinct, far, top, log_rates, present


@jit
def log_near_weight(first, size, field, layout, parameters, scratch):
    """Log weight in one field of the cluster scratch.members[first : first + size]."""
    present = 0
    for i in range(first, first + size):
        if layout.values[scratch.members[i], field] >= 0:
            present += 1
    if present < 2:
        return 0.0
    distinct, total, top, log_rates, _ = weigh_near(first, size, field, layout, parameters, scratch)
    for i in range(distinct):
        total += scratch.tally[scratch.seen[i]]
        scratch.tally[scratch.seen[i]] = 0.0
    return log_rates + top + math.log(total)


@jit
def draw_far(field, distinct, present, extra, used, layout, parameters, scratch):
    """Draw a level with chance phi c**present among those near no member, by rejection."""
    while True:
        word, other = words(extra, used)
        level = level_at(uniform(word), field, layout, parameters)
        used += 1
        fresh = uniform(other) < (layout.balance[level] / layout.most_balance[field]) ** present
        for i in range(distinct):
            if scratch.seen[i] == level:
                fresh = False
        if fresh:
            return level, used


@jit
def draw_near(size, field, u, extra, used, layout, parameters, scratch):
    """Draw the true value of the cluster in scratch.members[:size] in a field (equation 16)."""
    distinct, far, _, _, present = weigh_near(0, size, field, layout, parameters, scratch)
    total = far
    for i in range(distinct):
        total += scratch.tally[scratch.seen[i]]
    target = u * total
    chosen = np.int64(-1)
    for i in range(distinct):
        level = np.int64(scratch.seen[i])
        if chosen < 0:
            if target < scratch.tally[level]:
                chosen = level
            else:
                target -= scratch.tally[level]
        scratch.tally[level] = 0.0
    if chosen < 0 and far <= 0.0:
        chosen = np.int64(scratch.seen[distinct - 1])  # rounding alone leads here
    if chosen < 0:
        chosen, used = draw_far(field, distinct, present, extra, used, layout, parameters, scratch)
    return chosen, used
