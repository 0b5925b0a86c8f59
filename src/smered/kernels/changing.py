"""Fields whose true values change over time (equations 26 to 28).

An entity's value is drawn anew between two files, in their order of time, with a rate. So its
records fall into stretches: what a cluster weighs in the field is a sum over all ways to cut its
records between files, each stretch weighing what a cluster of its own would.
"""

import math

from smered.kernels.jit import jit, jit_inline
from smered.kernels.rng import another, uniform, words
from smered.layout import ZERO

__all__ = [
    "changed_first",
    "kept_before",
    "kept_between",
    "log_or_none",
    "log_sum",
    "order_by_time",
]
__all__ += ["time_of"]


@jit_inline
def time_of(record, layout):
    """When a record's file stands in the order of time."""
    return layout.time[layout.cell_file[layout.cell[record]]]


@jit_inline
def kept_between(record, other, field, layout, parameters):
    """The probability that a value did not change between the files of two records."""
    return parameters.kept[time_of(record, layout), time_of(other, layout), field]


@jit
def order_by_time(first, size, field, layout, scratch):
    """Bring scratch.members[first : first + size] in the order of time, missing values last.

    Writes where each time begins to scratch.edge, and the last end; returns how many times.
    """
    found, groups = ZERO, ZERO
    for time in range(scratch.edge.shape[0] - 1):
        begin = found
        for i in range(first, first + size):
            record = scratch.members[i]
            if time_of(record, layout) == time and layout.values[record, field] >= 0:
                scratch.ordered[found] = record
                found += 1
        if found > begin:
            scratch.edge[groups] = first + begin
            groups += 1
    scratch.edge[groups] = first + found
    for i in range(first, first + size):
        record = scratch.members[i]
        if layout.values[record, field] < 0:
            scratch.ordered[found] = record
            found += 1
    for i in range(size):
        scratch.members[first + i] = scratch.ordered[i]
    return groups


@jit_inline
def kept_before(group, field, layout, parameters, scratch):
    """The probability that the value did not change just before a group of records."""
    after, before = scratch.members[scratch.edge[group]], scratch.members[scratch.edge[group] - 1]
    return kept_between(before, after, field, layout, parameters)


@jit_inline
def log_or_none(value):
    """The logarithm of a number that may be 0."""
    return math.log(value) if value > 0.0 else -math.inf


@jit_inline
def log_sum(one, two):
    """Log of the sum of two numbers given by their logarithms, either of which may be 0."""
    top = max(one, two)
    if top == -math.inf:
        return top
    return top + math.log(math.exp(one - top) + math.exp(two - top))


@jit
def changed_first(before, after, field, changes, index, layout, parameters, statistics):
    """Count a change that lies somewhere between two records: the first step it may lie in.

    What happened in later steps stays summed out.
    """
    start, end = time_of(before, layout), time_of(after, layout)
    for step in range(start, end):
        statistics.exposed[step, field] += 1
        rate = 1.0 - parameters.kept[step, step + 1, field]
        some = 1.0 - parameters.kept[step, end, field]
        coin = uniform(words(another(changes, layout.time.shape[0] + step + 1), index)[0])
        if step == end - 1 or coin * some < rate:
            statistics.changed[step, field] += 1
            return
