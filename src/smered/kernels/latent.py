"""True values and distortions given the linkage, drawn exactly (equations 9 and 10).

The numbers used for a cluster or a record depend on its position alone, so the same linkage,
level probabilities and distortion rates always give the same y and z, in the sweep or long after.
"""

import math

import numpy as np

from smered.kernels.clusters import gather
from smered.kernels.jit import jit, jit_inline
from smered.kernels.likelihood import record_odds, tally_levels
from smered.kernels.rng import DISTORT, EXTRA, FINE, TRUE, WRITTEN, stream, uniform, words
from smered.layout import ZERO

__all__ = ["draw_latent"]

MISSING, DIFFER = -1, -2
CHUNKS = 8  # numbers of 16 bits in two words: mostly they decide alone
CHUNK_SIDES = 65536.0
ROUNDING = 1e-12  # what may be left of 1 after taking all levels of a field away


@jit_inline
def level_at(target, field, layout, parameters):
    """The level whose interval of the field's running sum of theta holds `target`."""
    low, high = layout.field_start[field], layout.field_start[field + 1] - 1
    while low < high:
        middle = (low + high) // 2
        if parameters.cumulative[middle] > target:
            high = middle
        else:
            low = middle + 1
    return low


@jit_inline
def draw_unseen(field, distinct, extra, used, layout, parameters, scratch):
    """Draw a level from theta among those the cluster does not show, by rejection."""
    while True:
        level = level_at(uniform(words(extra, used)[0]), field, layout, parameters)
        used += 1
        fresh = True
        for i in range(distinct):
            if scratch.seen[i] == level:
                fresh = False
        if fresh:
            return level, used


@jit_inline
def draw_true(size, field, u, extra, used, layout, parameters, scratch):
    """Draw the true value of the cluster in scratch.members[:size] (equation 9).

    A seen level v weighs theta_v times its tally of rho, every unseen one its theta.
    """
    distinct = tally_levels(ZERO, size, field, layout, parameters, scratch)
    top = 0.0
    if size > parameters.small:
        for i in range(distinct):
            top = max(top, scratch.tally[scratch.seen[i]])
    unseen = 1.0
    total = 0.0
    for i in range(distinct):
        level = scratch.seen[i]
        theta = parameters.theta[level]
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
        level = scratch.seen[i]
        if chosen == MISSING:
            if target < scratch.tally[level]:
                chosen = level
            else:
                target -= scratch.tally[level]
        scratch.tally[level] = 0.0
    if chosen == MISSING and unseen <= 0.0:
        chosen = scratch.seen[distinct - 1]  # rounding alone leads here
    if chosen == MISSING:
        chosen, used = draw_unseen(field, distinct, extra, used, layout, parameters, scratch)
    return chosen, used


@jit_inline
def agreed_level(size, field, layout, parameters, scratch):
    """The level that all members with a value show, prod rho over them, and their number.

    MISSING if none has a value, DIFFER if they show more than one.
    """
    common, product, present = MISSING, 1.0, 0
    for i in range(size):
        record = scratch.members[i]
        level = np.int64(layout.values[record, field])
        if level >= 0:
            present += 1
            if common >= 0 and level != common:
                return DIFFER, product, present
            common = level
            odds = record_odds(record, field, layout, parameters)
            product *= 1.0 + odds * parameters.inverse_theta[level]
    return common, product, present


@jit
def draw_true_values(row, size, used, written, writing, streams, layout, parameters, scratch):
    """Draw y of the cluster in scratch.members[:size] into scratch.true (equation 9).

    MISSING where no member shows a value. scratch.lone receives the level of a value that is the
    only one of its cluster, -1 elsewhere; there y is drawn only to be written. Members that agree,
    by far the commonest case, need no tally: their level weighs theta_v prod rho, all others
    together 1 - theta_v.
    """
    true_stream, fine, extra, extra_written = streams
    fields = layout.exact.shape[0]
    calls = (fields + CHUNKS - 1) // CHUNKS
    pair = words(true_stream, row * calls)
    for field in range(fields):
        if field % CHUNKS == 0 and field > 0:
            pair = words(true_stream, row * calls + field // CHUNKS)
        level, product, present = agreed_level(size, field, layout, parameters, scratch)
        scratch.lone[field] = -1
        if level != MISSING and not layout.exact[field]:
            if present == 1:
                scratch.lone[field] = level
            if writing or present > 1:
                chunk = chunk_of(pair, field % CHUNKS)
                agreed = level >= 0 and size <= parameters.small
                weight = parameters.theta[level] * product if agreed else 0.0
                whole = weight + 1.0 - parameters.theta[level]
                u = 0.0
                certain = agreed and (chunk + 1.0) * whole <= CHUNK_SIDES * weight
                if not certain:
                    u = refine(chunk, fine, 2 * (row * fields + field))
                if not certain and (not agreed or u * whole >= weight):
                    if present > 1:
                        level, used = draw_true(
                            size, field, u, extra, used, layout, parameters, scratch
                        )
                    else:
                        level, written = draw_true(
                            size, field, u, extra_written, written, layout, parameters, scratch
                        )
        scratch.true[field] = level
    return used, written


@jit_inline
def chunk_of(pair, number):
    """One of the eight numbers of 16 bits in two words."""
    word = pair[0] if number < 4 else pair[1]
    return np.float64((word >> np.uint64(16 * (number % 4))) & np.uint64(65535))


@jit_inline
def refine(chunk, fine, index):
    """The number in [0, 1) whose first 16 bits are known, from a stream of further bits."""
    return (chunk + uniform(words(fine, index)[0])) / CHUNK_SIDES


@jit_inline
def count_single(record, layout, statistics):
    """Add the values of a record that is alone to the counts."""
    for field in range(layout.exact.shape[0]):
        level = layout.values[record, field]
        if level >= 0:
            statistics.level_counts[level] += 1


@jit
def draw_latent(
    block, seed, chain, sweep, layout, parameters, clusters, scratch, statistics, true, distorted
):
    """Draw y and z of a block and add them to the sufficient statistics of theta and beta.

    A value that is the only one of its cluster in a field has likelihood theta_x: it says nothing
    about beta. There y and z stay summed out, and the value itself is counted (equation 11). They
    are drawn only to be written.

    true (n, p) int32 and distorted (n, p) int32 receive y and z at every record; empty arrays
    leave them unwritten. y is -1 where no record of the entity has a value: it says nothing about
    theta and is left summed out. z is -1 where the record has no value.
    """
    start, end = layout.block_start[block], layout.block_start[block + 1]
    fields = layout.exact.shape[0]
    writing = true.shape[0] > 0
    fine = stream(seed, chain, sweep, block, FINE)
    streams = (
        stream(seed, chain, sweep, block, TRUE),
        fine,
        stream(seed, chain, sweep, block, EXTRA),
        stream(seed, chain, sweep, block, WRITTEN),
    )
    distort = stream(seed, chain, sweep, block, DISTORT)
    calls = (fields + CHUNKS - 1) // CHUNKS
    used, written = ZERO, ZERO  # numbers of the last two streams
    for name in range(start, end):
        if clusters.entity[name] != name:
            continue
        if clusters.size[name] == 1 and not writing:
            count_single(name, layout, statistics)
            continue
        size = gather(name, ZERO, clusters, scratch)
        used, written = draw_true_values(
            name - start, size, used, written, writing, streams, layout, parameters, scratch
        )
        for field in range(fields):
            counted = scratch.lone[field] if scratch.lone[field] >= 0 else scratch.true[field]
            if counted != MISSING:
                statistics.level_counts[counted] += 1
        for i in range(size):
            record = scratch.members[i]
            file_row = layout.rate_row[layout.cell_file[layout.cell[record]]]
            pair = words(distort, (record - start) * calls)
            for field in range(fields):
                if field % CHUNKS == 0 and field > 0:
                    pair = words(distort, (record - start) * calls + field // CHUNKS)
                level = layout.values[record, field]
                value = scratch.true[field]
                is_distorted = level >= 0 and level != value
                if level >= 0 and level == value and not layout.exact[field]:
                    # equation 10: an equal value is distorted with probability 1 / rho
                    ratio = parameters.odds[file_row, field] * parameters.inverse_theta[level]
                    chunk = chunk_of(pair, field % CHUNKS)
                    if chunk * (1.0 + ratio) < CHUNK_SIDES:  # else it cannot be
                        u = refine(chunk, fine, 2 * ((record - start) * fields + field) + 1)
                        is_distorted = u * (1.0 + ratio) < 1.0
                if level >= 0 and scratch.lone[field] < 0:
                    statistics.telling[file_row, field] += 1
                    if is_distorted:
                        statistics.level_counts[level] += 1
                        statistics.distorted[file_row, field] += 1
                if writing:
                    true[record, field] = value
                    distorted[record, field] = MISSING if level < 0 else is_distorted
