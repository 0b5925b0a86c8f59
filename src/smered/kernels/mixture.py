"""True values from a mixture of latent classes, so that fields may depend on each other.

An entity belongs to class c with probability pi_c; given its class, its true values are drawn
independently from theta_cl. Distorted values are drawn from phi_l, the shares that records show.
The weight of a cluster, over phi of all its values, is a sum over classes (equation 18):

    sum_c pi_c prod_l prod_r beta_r * [ 1 + sum_{v seen} theta_clv (prod_{r: x_r = v} rho_rv - 1) ]
    rho_rv = 1 + odds_r / phi_v

Fields whose distorted values fall near the true one stay outside: they multiply the whole.
"""

import math

import numpy as np

from smered.kernels.jit import jit, jit_inline
from smered.kernels.lookup import record_rate
from smered.kernels.tally import tally_levels

__all__ = ["draw_class", "draw_from_class", "is_mixture", "log_class_weights"]

HUGE, TINY = 1e150, 1e-150


@jit_inline
def is_mixture(parameters):
    """Whether there are classes."""
    return parameters.class_weight.shape[0] > 1


@jit_inline
def rescale(total, scratch):
    """Keep the weights of classes within range; return the logarithm taken out so far."""
    top = 0.0
    for c in range(scratch.classes.shape[0]):
        top = max(top, scratch.classes[c])
    if top == 0.0:
        return -math.inf
    if TINY < top < HUGE:
        return total
    for c in range(scratch.classes.shape[0]):
        scratch.classes[c] /= top
    return total + math.log(top)


@jit_inline
def weigh_exact(first, size, field, layout, parameters, scratch):
    """Multiply in a field that is never distorted, but for phi: return that in logs.

    Minus infinity if its values differ.
    """
    common, shown = np.int64(-1), 0
    for i in range(first, first + size):
        level = np.int64(layout.values[scratch.members[i], field])
        if level >= 0:
            if common >= 0 and level != common:
                return -math.inf
            common = level
            shown += 1
    if shown == 0:
        return 0.0
    for c in range(scratch.classes.shape[0]):
        scratch.classes[c] *= parameters.class_theta[common, c]
    return shown * math.log(parameters.inverse_theta[common])


@jit
def log_class_weights(first, size, layout, parameters, scratch):
    """Weigh every class for scratch.members[first : first + size], in scratch.classes.

    Returns the logarithm of what they were divided by; -inf if the cluster is impossible.
    """
    for c in range(scratch.classes.shape[0]):
        scratch.classes[c] = parameters.class_weight[c]
    total = 0.0
    in_logs = size > parameters.small
    for field in range(layout.exact.shape[0]):
        if layout.near[field]:
            continue
        if layout.given[field]:
            continue
        if layout.exact[field]:
            total += weigh_exact(first, size, field, layout, parameters, scratch)
            if total == -math.inf:
                return total
            total = rescale(total, scratch)
            continue
        distinct = tally_levels(first, size, field, layout, parameters, scratch)
        if distinct == 0:
            continue
        log_base, base = 0.0, 1.0
        for i in range(first, first + size):
            record = scratch.members[i]
            if layout.values[record, field] >= 0:
                if in_logs:
                    log_base += math.log(record_rate(record, field, layout, parameters))
                else:
                    base *= record_rate(record, field, layout, parameters)
        if in_logs:
            shift = log_base
            for i in range(distinct):
                shift = max(shift, log_base + scratch.tally[scratch.seen[i]])
            total += shift
            base = math.exp(log_base - shift)
            for i in range(distinct):
                level = scratch.seen[i]
                scratch.tally[level] = math.exp(log_base + scratch.tally[level] - shift) - base
        else:
            for i in range(distinct):
                level = scratch.seen[i]
                scratch.tally[level] = base * (scratch.tally[level] - 1.0)
        if distinct == 1:
            level = scratch.seen[0]
            more = scratch.tally[level]
            for c in range(scratch.classes.shape[0]):
                scratch.classes[c] *= base + more * parameters.class_theta[level, c]
        else:
            for c in range(scratch.classes.shape[0]):
                factor = base
                for i in range(distinct):
                    level = scratch.seen[i]
                    factor += scratch.tally[level] * parameters.class_theta[level, c]
                scratch.classes[c] *= factor
        for i in range(distinct):
            scratch.tally[scratch.seen[i]] = 0.0
        total = rescale(total, scratch)
    return total


@jit
def draw_class(u, scratch):
    """Draw a class by the weights in scratch.classes."""
    classes = scratch.classes.shape[0]
    total = 0.0
    for c in range(classes):
        total += scratch.classes[c]
    target = u * total
    for c in range(classes - 1):
        if target < scratch.classes[c]:
            return np.int64(c)
        target -= scratch.classes[c]
    return np.int64(classes - 1)


@jit
def draw_from_class(u, field, distinct, c, layout, parameters, scratch):
    """Draw a level from theta of a class among those that are not in scratch.seen[:distinct]."""
    first, last = layout.field_start[field], layout.field_start[field + 1]
    total = 0.0
    for level in range(first, last):
        total += parameters.class_theta[level, c]
    for i in range(distinct):
        total -= parameters.class_theta[scratch.seen[i], c]
    target = u * total
    chosen = np.int64(-1)
    for level in range(first, last):
        fresh = True
        for i in range(distinct):
            if scratch.seen[i] == level:
                fresh = False
        if fresh:
            chosen = np.int64(level)
            target -= parameters.class_theta[level, c]
            if target < 0.0:
                break
    return chosen
