"""True values and distortions given the linkage, drawn exactly (equations 9 and 10).

A chain needs only their counts, and most of those need no numbers here: fields in which all
records of a cluster agree are counted by level and number, for `smered.counts` to draw from. Users
get y and z themselves; the numbers of a cluster or a record depend on its position alone, so that
the same linkage, level probabilities and distortion rates always give the same y and z.
"""

import math

import numpy as np

from smered.kernels.changing import changed_first, time_of
from smered.kernels.clusters import gather
from smered.kernels.jit import jit, jit_inline
from smered.kernels.likelihood import reach_groups, stretch_weight
from smered.kernels.lookup import level_at, record_odds
from smered.kernels.mixture import draw_class, draw_from_class, is_mixture, log_class_weights
from smered.kernels.near import place_of, slip_share
from smered.kernels.rng import (
    CHANGE,
    CLASS,
    DISTORT,
    EXTRA,
    ROTATE,
    ROTATE_EXTRA,
    TRUE,
    another,
    stream,
    uniform,
    words,
)
from smered.kernels.tally import tally_levels
from smered.layout import MOST_AGREED, ZERO

__all__ = ["count_latent", "draw_chosen", "draw_latent"]

MISSING, DIFFER = -1, -2
NO_CLASS = np.int64(-1)
ROUNDING = 1e-12  # what may be left of 1 after taking all levels of a field away


@jit_inline
def draw_unseen(field, distinct, extra, index, layout, parameters, scratch):
    """Draw a level from theta among those the cluster does not show, by rejection."""
    tries = 0
    while True:
        number = uniform(words(another(extra, tries), index)[0])
        level = level_at(number, field, layout, parameters)
        tries += 1
        fresh = True
        for i in range(distinct):
            if scratch.seen[i] == level:
                fresh = False
        if fresh:
            return level


@jit_inline
def prior_of(level, c, parameters):
    """The probability of a true value, in a class or without classes."""
    return parameters.theta[level] if c < 0 else parameters.class_theta[level, c]


@jit
def draw_true(first, size, field, c, u, extra, index, layout, parameters, scratch):
    """Draw the true value of scratch.members[first : first + size], of class c (equation 9).

    A seen level v weighs theta_v times its tally of rho, every unseen one its theta. `u` and more
    numbers, at an index of the stream `extra`, decide.
    """
    distinct = tally_levels(first, size, field, layout, parameters, scratch)
    top = 0.0
    if size > parameters.small:
        for i in range(distinct):
            top = max(top, scratch.tally[scratch.seen[i]])
    unseen = 1.0
    total = 0.0
    for i in range(distinct):
        level = scratch.seen[i]
        theta = prior_of(level, c, parameters)
        unseen -= theta
        if size > parameters.small:
            scratch.tally[level] = theta * math.exp(scratch.tally[level] - top)
        else:
            scratch.tally[level] *= theta
        total += scratch.tally[level]
    if unseen < ROUNDING:
        unseen = 0.0  # every level is shown
    total += unseen * math.exp(-top)
    target = u * total
    chosen = MISSING
    for i in range(distinct):
        level = np.int64(scratch.seen[i])
        if chosen == MISSING:
            if target < scratch.tally[level]:
                chosen = level
            else:
                target -= scratch.tally[level]
        scratch.tally[level] = 0.0
    if chosen == MISSING and unseen <= 0.0:
        chosen = np.int64(scratch.seen[distinct - 1])  # rounding alone leads here
    if chosen == MISSING and c >= 0:
        again = uniform(words(extra, index)[0])
        chosen = draw_from_class(again, field, distinct, c, layout, parameters, scratch)
    elif chosen == MISSING:
        chosen = draw_unseen(field, distinct, extra, index, layout, parameters, scratch)
    return chosen


@jit_inline
def class_of(name, size, classes, layout, parameters, scratch):
    """Draw the class of the cluster in scratch.members[:size], or NO_CLASS."""
    if not is_mixture(parameters):
        return NO_CLASS
    log_class_weights(ZERO, size, layout, parameters, scratch)
    return draw_class(uniform(words(classes, layout.place[name])[0]), scratch)


@jit_inline
def agreed_level(first, size, field, layout, scratch):
    """The level that scratch.members[first : first + size] with a value show, and their number.

    MISSING if none has a value, DIFFER if they show more than one.
    """
    common, present = MISSING, ZERO
    for i in range(first, first + size):
        level = np.int64(layout.values[scratch.members[i], field])
        if level >= 0:
            common = DIFFER if present > 0 and level != common else level
            present += 1
    return common, present


@jit_inline
def agreed_in(first, size, field, layout, scratch):
    """The same, quicker for the commonest clusters: one record, or two that agree."""
    level = np.int64(layout.values[scratch.members[first], field])
    if size <= 2 and level == layout.values[scratch.members[first + size - 1], field]:
        return level, size if level >= 0 else ZERO
    return agreed_level(first, size, field, layout, scratch)


@jit_inline
def is_distorted(record, field, true, word, layout, parameters):
    """Draw z of a record with a value, given y (equation 10)."""
    level = layout.values[record, field]
    kernel = layout.near_itself[level]
    if layout.sets[field]:
        place = place_of(true, level, layout)
        if place < 0 or not layout.near_copies[place]:
            return True
        kernel = layout.near_kernel[place]
    elif level != true:
        return True
    ratio = record_odds(record, field, layout, parameters) * parameters.inverse_theta[level]
    close = parameters.closeness[field]
    again = 1.0 - close + close * kernel  # psi(level | true) / theta
    return uniform(word) * (again + ratio) < again


@jit_inline
def count_field(first, size, name, field, c, streams, layout, parameters, scratch, statistics):
    """Count y and z of scratch.members[first : first + size] in a field, of one true value.

    Its random numbers are named by the record `name`.
    """
    true_stream, extra, distort = streams
    fields = layout.exact.shape[0]
    level, present = agreed_in(first, size, field, layout, scratch)
    if present == 0:
        return
    mixed = c >= 0 and not layout.near[field]
    if mixed and layout.exact[field]:
        statistics.class_levels[level, c] += 1
        return
    if not mixed and (present == 1 or layout.exact[field]):
        statistics.level_counts[level] += 1
        return
    simple = level >= 0 and parameters.odds.shape[0] == 1 and present <= MOST_AGREED
    if simple and not mixed and not layout.near[field]:
        statistics.agreed[present, level] += 1
        return
    index = np.int64(layout.place[name]) * fields + field
    u = uniform(words(true_stream, index)[0])
    own = c if mixed else NO_CLASS
    true = draw_true(first, size, field, own, u, extra, index, layout, parameters, scratch)
    statistics.level_counts[true] += 1
    if mixed:
        statistics.class_levels[true, c] += 1
    for i in range(first, first + size):
        record = scratch.members[i]
        if layout.values[record, field] >= 0:
            row = layout.rate_row[layout.cell_file[layout.cell[record]]]
            word, slip = words(distort, np.int64(layout.place[record]) * fields + field)
            statistics.telling[row, field] += 1
            if is_distorted(record, field, true, word, layout, parameters):
                shown = layout.values[record, field]
                statistics.level_counts[shown] += 1
                statistics.distorted[row, field] += 1
                if layout.near[field] and uniform(slip) < slip_share(
                    shown, true, field, layout, parameters
                ):
                    statistics.slips[row, field] += 1


@jit
def cut_cluster(first, size, field, changes, index, layout, parameters, scratch):
    """Draw where the true value of a cluster changed: scratch.cut; return how many times show one.

    From the last stretch back: given where one begins, what came before is as if it were all.
    """
    groups = reach_groups(first, size, field, layout, parameters, scratch)
    scratch.cut[: groups + 1] = False
    end = groups
    while end > 0:
        u = uniform(words(another(changes, end), index)[0])
        begin = end - 1
        running = math.exp(
            stretch_weight(begin, end, field, layout, parameters, scratch) - scratch.reach[end]
        )
        while begin > 0 and u >= running:
            begin -= 1
            running += math.exp(
                stretch_weight(begin, end, field, layout, parameters, scratch) - scratch.reach[end]
            )
        scratch.cut[begin] = True
        end = begin
    return groups


@jit
def count_changing(first, size, name, field, streams, changes, layout, parameters, scratch, counts):
    """The same where the true value changes over time: each stretch has its own (equation 28)."""
    index = np.int64(layout.place[name]) * layout.exact.shape[0] + field
    groups = cut_cluster(first, size, field, changes, index, layout, parameters, scratch)
    for group in range(groups):
        if group > 0:
            last = scratch.members[scratch.edge[group] - 1]
            here = scratch.members[scratch.edge[group]]
            if scratch.cut[group]:
                changed_first(last, here, field, changes, index, layout, parameters, counts)
            else:
                for step in range(time_of(last, layout), time_of(here, layout)):
                    counts.exposed[step, field] += 1
    begin = ZERO
    for group in range(1, groups + 1):
        if group == groups or scratch.cut[group]:
            start = scratch.edge[begin]
            count_field(
                start, scratch.edge[group] - start, scratch.members[start], field, NO_CLASS,
                streams, layout, parameters, scratch, counts,
            )  # fmt: skip
            begin = group


@jit
def count_latent(block, seed, chain, sweep, layout, parameters, clusters, scratch, statistics):
    """Add the y and z of a block to the sufficient statistics of theta and beta.

    A value that is the only one of its cluster in a field has likelihood theta_x: it says nothing
    about beta. There y and z stay summed out, and the value itself is counted (equation 11).
    """
    start, end = layout.block_start[block], layout.block_start[block + 1]
    streams = (
        stream(seed, chain, sweep, layout.block_name[block], TRUE),
        stream(seed, chain, sweep, layout.block_name[block], EXTRA),
        stream(seed, chain, sweep, layout.block_name[block], DISTORT),
    )
    classes = stream(seed, chain, sweep, layout.block_name[block], CLASS)
    changes = stream(seed, chain, sweep, layout.block_name[block], CHANGE)
    for name in range(start, end):
        if clusters.entity[name] != name:
            continue
        size = gather(name, ZERO, clusters, scratch)
        c = class_of(name, size, classes, layout, parameters, scratch)
        if c >= 0:
            statistics.class_counts[c] += 1
        for field in range(layout.exact.shape[0]):
            if layout.changing[field] and size > 1:
                count_changing(
                    ZERO, size, name, field, streams, changes, layout, parameters, scratch,
                    statistics,
                )  # fmt: skip
            else:
                count_field(
                    ZERO, size, name, field, c, streams, layout, parameters, scratch, statistics
                )


@jit_inline
def draw_any(size, field, u, extra, index, layout, parameters, scratch):
    """Draw the true value of a cluster, which may show no value at all (equation 9).

    Members that agree, by far the commonest case, need no tally: their level weighs
    theta_v prod rho, all others together 1 - theta_v.
    """
    level, present = agreed_in(ZERO, size, field, layout, scratch)
    if present == 0:
        return level_at(u, field, layout, parameters)
    if layout.exact[field]:
        return level
    if level >= 0 and size <= parameters.small and not layout.near[field]:
        weight = parameters.theta[level]
        others = 1.0 - weight
        for i in range(size):
            record = scratch.members[i]
            if layout.values[record, field] >= 0:
                odds = record_odds(record, field, layout, parameters)
                weight *= 1.0 + odds * parameters.inverse_theta[level]
        if u * (weight + others) < weight:
            return level
    return draw_true(ZERO, size, field, NO_CLASS, u, extra, index, layout, parameters, scratch)


@jit
def draw_chosen(block, seed, chain, sweep, chosen, layout, parameters, clusters, scratch, true):
    """Write the true values of a block in some fields, chosen (c,), to true (n, c) int32."""
    start, end = layout.block_start[block], layout.block_start[block + 1]
    fields = layout.exact.shape[0]
    numbers = stream(seed, chain, sweep, layout.block_name[block], ROTATE)
    extra = stream(seed, chain, sweep, layout.block_name[block], ROTATE_EXTRA)
    for name in range(start, end):
        if clusters.entity[name] != name:
            continue
        size = gather(name, ZERO, clusters, scratch)
        for column in range(chosen.shape[0]):
            field = chosen[column]
            index = np.int64(layout.place[name]) * fields + column
            u = uniform(words(numbers, index)[0])
            value = draw_any(size, field, u, extra, index, layout, parameters, scratch)
            for i in range(size):
                true[scratch.members[i], column] = value


@jit
def draw_latent(block, seed, chain, sweep, layout, parameters, clusters, scratch, true, distorted):
    """Write y and z of a block at every record: true (n, p) int32 and distorted (n, p) int32.

    y is -1 where no record of the entity has a value: it says nothing about theta and is left
    summed out. z is -1 where the record has no value.
    """
    start, end = layout.block_start[block], layout.block_start[block + 1]
    streams = (
        stream(seed, chain, sweep, layout.block_name[block], TRUE),
        stream(seed, chain, sweep, layout.block_name[block], EXTRA),
        stream(seed, chain, sweep, layout.block_name[block], DISTORT),
    )
    classes = stream(seed, chain, sweep, layout.block_name[block], CLASS)
    changes = stream(seed, chain, sweep, layout.block_name[block], CHANGE)
    for name in range(start, end):
        if clusters.entity[name] != name:
            continue
        size = gather(name, ZERO, clusters, scratch)
        c = class_of(name, size, classes, layout, parameters, scratch)
        for field in range(layout.exact.shape[0]):
            if layout.changing[field] and size > 1:
                draw_changing(
                    size, name, field, streams, changes, layout, parameters, scratch, true,
                    distorted,
                )  # fmt: skip
            else:
                draw_field(
                    ZERO, size, name, field, c, streams, layout, parameters, scratch, true,
                    distorted,
                )  # fmt: skip


@jit_inline
def draw_field(first, size, name, field, c, streams, layout, parameters, scratch, true, distorted):
    """Write y and z of scratch.members[first : first + size] in a field, of one true value."""
    true_stream, extra, distort = streams
    fields = layout.exact.shape[0]
    value, _ = agreed_level(first, size, field, layout, scratch)
    if value != MISSING and not layout.exact[field]:
        index = np.int64(layout.place[name]) * fields + field
        u = uniform(words(true_stream, index)[0])
        own = NO_CLASS if layout.near[field] else c
        value = draw_true(first, size, field, own, u, extra, index, layout, parameters, scratch)
    for i in range(first, first + size):
        record = scratch.members[i]
        true[record, field] = value
        if layout.values[record, field] < 0:
            distorted[record, field] = MISSING
        elif layout.exact[field]:
            distorted[record, field] = 0
        else:
            word = words(distort, np.int64(layout.place[record]) * fields + field)[0]
            distorted[record, field] = is_distorted(record, field, value, word, layout, parameters)


@jit
def draw_changing(
    size, name, field, streams, changes, layout, parameters, scratch, true, distorted
):
    """The same where the true value changes over time; -1 at records that show none."""
    index = np.int64(layout.place[name]) * layout.exact.shape[0] + field
    groups = cut_cluster(ZERO, size, field, changes, index, layout, parameters, scratch)
    begin = ZERO
    for group in range(1, groups + 1):
        if group == groups or scratch.cut[group]:
            start = scratch.edge[begin]
            draw_field(
                start, scratch.edge[group] - start, scratch.members[start], field, NO_CLASS,
                streams, layout, parameters, scratch, true, distorted,
            )  # fmt: skip
            begin = group
    for i in range(scratch.edge[groups], size):
        true[scratch.members[i], field] = MISSING
        distorted[scratch.members[i], field] = MISSING
