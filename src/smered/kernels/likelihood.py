"""The weight of a cluster with true values and distortions summed out (equations 3 to 5).

The likelihood of a cluster C in field l is

    L_l(C) = prod_r (beta theta_{x_r}) * [ 1 + sum_{v seen} theta_v (prod_{r: x_r = v} rho_rv - 1) ]
    rho_rv = 1 + odds_r / theta_v,    odds = (1 - beta) / beta

A lone record has likelihood theta_x, whatever beta is. Kernels weigh clusters by L(C) over the
likelihoods of their records alone: prod_r beta_r times the bracket, 1 for a lone record. An exact
field (beta = 0) gives theta_v over the product of its records' theta, or 0 if two levels were seen.
"""

import math

from smered.kernels.changing import (
    kept_before,
    kept_between,
    log_or_none,
    log_sum,
    order_by_time,
    time_of,
)
from smered.kernels.jit import jit, jit_inline
from smered.kernels.lookup import record_rate
from smered.kernels.mixture import is_mixture, log_class_weights
from smered.kernels.near import near_pair_weight, near_triple_weight, set_pair_weight
from smered.kernels.tally import tally_levels

__all__ = [
    "log_bracket",
    "log_field_weight",
    "log_still_weight",
    "log_weight",
    "reach_groups",
    "stretch_weight",
]

HUGE, TINY = 1e150, 1e-150


@jit_inline
def log_exact_weight(first, size, field, layout, parameters, scratch):
    """Log of theta_v**(1 - s) if all s members with a value show v; 0 if none, -inf if they differ.

    In logs for clusters of any size: the product leaves its range at some dozen records.
    """
    common, further = -1, 0
    for i in range(first, first + size):
        level = layout.values[scratch.members[i], field]
        if level >= 0:
            if common >= 0:
                if level != common:
                    return -math.inf
                further += 1
            common = level
    if further == 0:
        return 0.0
    return further * math.log(parameters.inverse_theta[common])


@jit
def log_bracket(first, size, field, layout, parameters, scratch):
    """Log of the weight in one field, computed in logs: for clusters above `small`."""
    distinct = tally_levels(first, size, field, layout, parameters, scratch)
    top = 0.0
    unseen = 1.0
    for i in range(distinct):
        level = scratch.seen[i]
        unseen -= parameters.theta[level]
        top = max(top, math.log(parameters.theta[level]) + scratch.tally[level])
    total = max(unseen, 0.0) * math.exp(-top)
    for i in range(distinct):
        level = scratch.seen[i]
        total += math.exp(math.log(parameters.theta[level]) + scratch.tally[level] - top)
        scratch.tally[level] = 0.0
    log_rates = 0.0
    far = 1.0 - parameters.closeness[field]
    for i in range(first, first + size):
        record = scratch.members[i]
        if layout.values[record, field] >= 0:
            log_rates += math.log(far * record_rate(record, field, layout, parameters))
    return top + math.log(total) + log_rates


@jit_inline
def bracket(first, size, field, layout, parameters, scratch):
    """The weight in one field by products: for clusters up to `small`."""
    distinct = tally_levels(first, size, field, layout, parameters, scratch)
    total = 1.0
    for i in range(distinct):
        level = scratch.seen[i]
        total += parameters.theta[level] * (scratch.tally[level] - 1.0)
        scratch.tally[level] = 0.0
    far = 1.0 - parameters.closeness[field]
    for i in range(first, first + size):
        record = scratch.members[i]
        if layout.values[record, field] >= 0:
            total *= far * record_rate(record, field, layout, parameters)
    return total


@jit_inline
def still_pair_weight(record, other, field, layout, parameters):
    """The weight of two records in one field: the commonest cluster by far (equation 5)."""
    level, other_level = layout.values[record, field], layout.values[other, field]
    if level < 0 or other_level < 0:
        return 1.0
    if layout.sets[field]:
        rate = record_rate(record, field, layout, parameters)
        other_rate = record_rate(other, field, layout, parameters)
        return set_pair_weight(level, other_level, rate, other_rate, field, layout, parameters)
    if parameters.odds.shape[0] == 1 or layout.exact[field]:
        if level == other_level:
            return parameters.agree[level]
        if not layout.near[field]:
            return parameters.differ[field]
    rate = record_rate(record, field, layout, parameters)
    other_rate = record_rate(other, field, layout, parameters)
    if layout.near[field]:
        return near_pair_weight(level, other_level, rate, other_rate, field, layout, parameters)
    weight = rate + other_rate - rate * other_rate
    if level == other_level:
        weight += (1.0 - rate) * (1.0 - other_rate) * parameters.inverse_theta[level]
    return weight


@jit_inline
def pair_weight(record, other, field, layout, parameters):
    """The weight of two records in one field, whose value may have changed between them (27)."""
    weight = still_pair_weight(record, other, field, layout, parameters)
    if layout.changing[field]:
        kept = kept_between(record, other, field, layout, parameters)
        weight = 1.0 - kept + kept * weight
    return weight


@jit_inline
def carry(total, product):
    """Move a product that nears the end of its range into the sum of logarithms."""
    if product == 0.0:
        return -math.inf, 1.0
    if product > HUGE or product < TINY:
        return total + math.log(product), 1.0
    return total, product


@jit_inline
def log_pair_weight(record, other, layout, parameters):
    """Log weight of two records, all fields."""
    total = 0.0
    product = 1.0
    for field in range(layout.exact.shape[0]):
        product *= pair_weight(record, other, field, layout, parameters)
        total, product = carry(total, product)
    return total + math.log(product)


@jit_inline
def triple_weight(one, two, three, field, parameters):
    """The weight of three values in one field, -1 where missing, rates not by file (equation 5)."""
    if one < 0:
        one, three = three, one
    elif two < 0:
        two, three = three, two
    if three < 0:  # two values at most
        if one < 0 or two < 0:
            return 1.0
        return parameters.agree[one] if one == two else parameters.differ[field]
    if one == two and one == three:
        return parameters.agree_thrice[one]
    rate = parameters.rate[field]
    if one in (two, three):
        return rate * parameters.agree[one] + rate * rate * (1.0 - rate)
    if two == three:
        return rate * parameters.agree[two] + rate * rate * (1.0 - rate)
    return rate * rate * (3.0 - 2.0 * rate)


@jit_inline
def still_triple_weight(first, field, layout, parameters, scratch):
    """The weight of three records in one field, rates not by file."""
    one, two, three = scratch.members[first], scratch.members[first + 1], scratch.members[first + 2]
    first_level = layout.values[one, field]
    second_level = layout.values[two, field]
    third_level = layout.values[three, field]
    if not layout.near[field]:
        return triple_weight(first_level, second_level, third_level, field, parameters)
    same = not layout.sets[field]  # else equal levels need not be equal values
    if same and first_level >= 0 and first_level == second_level == third_level:
        return parameters.agree_thrice[first_level]
    if same and first_level >= 0 and first_level == second_level and third_level >= 0:
        return near_triple_weight(first_level, third_level, field, layout, parameters)
    if same and first_level >= 0 and first_level == third_level and second_level >= 0:
        return near_triple_weight(first_level, second_level, field, layout, parameters)
    if same and second_level >= 0 and second_level == third_level and first_level >= 0:
        return near_triple_weight(second_level, first_level, field, layout, parameters)
    if parameters.small < 3:
        return math.exp(log_bracket(first, 3, field, layout, parameters, scratch))
    return bracket(first, 3, field, layout, parameters, scratch)


@jit_inline
def changing_triple_weight(first, field, layout, parameters, scratch):
    """The same where the value may have changed between the records, cut in all ways (27)."""
    one, two, three = scratch.members[first], scratch.members[first + 1], scratch.members[first + 2]
    if time_of(two, layout) < time_of(one, layout):
        one, two = two, one
    if time_of(three, layout) < time_of(two, layout):
        two, three = three, two
        if time_of(two, layout) < time_of(one, layout):
            one, two = two, one
    before = kept_between(one, two, field, layout, parameters)
    after = kept_between(two, three, field, layout, parameters)
    weight = (1.0 - before) * (1.0 - after)
    weight += before * (1.0 - after) * still_pair_weight(one, two, field, layout, parameters)
    weight += (1.0 - before) * after * still_pair_weight(two, three, field, layout, parameters)
    return weight + before * after * still_triple_weight(first, field, layout, parameters, scratch)


@jit_inline
def log_triple_weight(first, layout, parameters, scratch):
    """Log weight of three records, all fields, rates not by file."""
    total = 0.0
    product = 1.0
    for field in range(layout.exact.shape[0]):
        if layout.changing[field]:
            product *= changing_triple_weight(first, field, layout, parameters, scratch)
        else:
            product *= still_triple_weight(first, field, layout, parameters, scratch)
        total, product = carry(total, product)
    return total + math.log(product)


@jit_inline
def log_still_weight(first, size, field, layout, parameters, scratch):
    """Log weight of any records in one field whose value did not change between them."""
    if size == 1:
        return 0.0
    if layout.exact[field]:
        return log_exact_weight(first, size, field, layout, parameters, scratch)
    if size > parameters.small:
        return log_bracket(first, size, field, layout, parameters, scratch)
    return math.log(bracket(first, size, field, layout, parameters, scratch))


@jit_inline
def stretch_weight(begin, end, field, layout, parameters, scratch):
    """Log weight of groups begin..end-1 as the last stretch, after all that came before (28)."""
    start = scratch.edge[begin]
    size = scratch.edge[end] - start
    found = scratch.reach[begin]
    found += log_still_weight(start, size, field, layout, parameters, scratch)
    if begin > 0:
        found += log_or_none(1.0 - kept_before(begin, field, layout, parameters, scratch))
    for group in range(begin + 1, end):
        found += log_or_none(kept_before(group, field, layout, parameters, scratch))
    return found


@jit
def reach_groups(first, size, field, layout, parameters, scratch):
    """Weigh the first groups of a cluster's records in time: scratch.reach; return their number."""
    groups = order_by_time(first, size, field, layout, scratch)
    scratch.reach[0] = 0.0
    for end in range(1, groups + 1):
        total = -math.inf
        for begin in range(end):
            stretch = stretch_weight(begin, end, field, layout, parameters, scratch)
            total = log_sum(total, stretch)
        scratch.reach[end] = total
    return groups


@jit
def log_field_weight(first, size, field, layout, parameters, scratch):
    """Log weight of two records or more in one field."""
    if size == 2:
        record, other = scratch.members[first], scratch.members[first + 1]
        return math.log(pair_weight(record, other, field, layout, parameters))
    if layout.changing[field]:
        if size == 3 and parameters.odds.shape[0] == 1:
            return math.log(changing_triple_weight(first, field, layout, parameters, scratch))
        groups = reach_groups(first, size, field, layout, parameters, scratch)
        return scratch.reach[groups]
    return log_still_weight(first, size, field, layout, parameters, scratch)


@jit
def log_large_weight(first, size, layout, parameters, scratch):
    """Log weight of three records or more, all fields; not inlined, for it is long and rare."""
    total = 0.0
    product = 1.0
    for field in range(layout.exact.shape[0]):
        if layout.changing[field]:
            total += log_field_weight(first, size, field, layout, parameters, scratch)
        elif layout.exact[field]:
            total += log_exact_weight(first, size, field, layout, parameters, scratch)
        elif size > parameters.small:
            total += log_bracket(first, size, field, layout, parameters, scratch)
        else:
            product *= bracket(first, size, field, layout, parameters, scratch)
        total, product = carry(total, product)
    return total + math.log(product)


@jit
def log_mixed_weight(first, size, layout, parameters, scratch):
    """Log weight of a cluster of any size, true values drawn from a mixture of classes."""
    total = log_class_weights(first, size, layout, parameters, scratch)
    if total == -math.inf:
        return total
    product = 0.0
    for c in range(scratch.classes.shape[0]):
        product += scratch.classes[c]
    for field in range(layout.exact.shape[0]):
        if layout.near[field] and size > 1:
            if size == 2:
                record, other = scratch.members[first], scratch.members[first + 1]
                product *= pair_weight(record, other, field, layout, parameters)
            elif size > parameters.small:
                total += log_bracket(first, size, field, layout, parameters, scratch)
            else:
                product *= bracket(first, size, field, layout, parameters, scratch)
            total, product = carry(total, product)
    return total + math.log(product)


@jit_inline
def log_weight(first, size, layout, parameters, scratch):
    """Log weight of the cluster scratch.members[first : first + size], all fields."""
    if is_mixture(parameters):
        return log_mixed_weight(first, size, layout, parameters, scratch)
    if size == 1:
        return 0.0
    if size == 2:
        record, other = scratch.members[first], scratch.members[first + 1]
        return log_pair_weight(record, other, layout, parameters)
    if size == 3 and parameters.odds.shape[0] == 1:
        return log_triple_weight(first, layout, parameters, scratch)
    return log_large_weight(first, size, layout, parameters, scratch)
