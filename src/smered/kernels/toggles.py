"""Links that a distortion rate may be redrawn with: toggles (equation 13).

A toggle is a record that is either alone or in the cluster of its anchor, everything else staying
as it is. Toggles that share no record are independent given the rates, so that they can be summed
out of a rate's conditional distribution.
"""

import math

import numpy as np

from smered.kernels.clusters import (
    build_rings,
    gather,
    gather_without,
    kind_of,
    link_ring,
    log_kind_weight,
    step_of,
)
from smered.kernels.jit import entry, jit_inline
from smered.kernels.latent import agreed_level
from smered.kernels.likelihood import log_weight
from smered.kernels.rng import SETTLE, TOGGLE, another, below, low, stream, uniform, words
from smered.layout import MOST_AGREED, UNIT, ZERO

__all__ = ["draw_toggles", "find_toggles", "set_toggles", "weigh_toggles"]

HUGE = 1e150  # a product is taken out in logs before it grows beyond this
CERTAIN = 37.0  # log odds above which 1 + odds is odds, and below whose negative it is 1
FREE, FROZEN, TAKEN = np.uint8(0), np.uint8(1), np.uint8(2)  # what became of a record


@jit_inline
def host_level(mover, size, field, layout, scratch):
    """The one level that the host in scratch.members[:size] shows, and how often.

    A negative level if it shows more than one or too many values, or holds a record of the mover's
    own file, which may hold no duplicates.
    """
    cell = layout.cell[mover]
    if layout.single[layout.cell_file[cell]]:
        for i in range(size):
            if layout.cell[scratch.members[i]] == cell:
                return np.int64(-1), 0
    level, shown = agreed_level(ZERO, size, field, layout, scratch)
    return (level, shown) if shown <= MOST_AGREED else (np.int64(-1), 0)


@jit_inline
def mark(size, what, touched, scratch):
    """Say what became of the records scratch.members[:size]."""
    for i in range(size):
        touched[scratch.members[i]] = what


@jit_inline
def examine(at, block, field, touched, layout, parameters, prior, clusters, scratch, toggles):
    """Take pair `at` as a toggle if it can be one.

    It can if neither record was touched yet, the mover is alone or with the anchor, and the host,
    the anchor's cluster without the mover, shows one level in the field. Whatever way the toggles
    stand, the same pairs must be taken. So a toggle touches all its records, and a pair that cannot
    be one touches the clusters that keep it from being one: no other toggle will change them.
    """
    toggles.shown[at] = 0
    mover, anchor = np.int64(toggles.mover[at]), np.int64(toggles.anchor[at])
    if touched[mover] or touched[anchor]:
        return
    together = clusters.entity[mover] == clusters.entity[anchor]
    if not together and clusters.size[clusters.entity[mover]] > 1:
        mark(gather(mover, ZERO, clusters, scratch), FROZEN, touched, scratch)
        return
    size = gather_without(mover, anchor, ZERO, clusters, scratch)
    scratch.members[size] = mover
    mark(size + 1, FROZEN, touched, scratch)
    level, shown = host_level(mover, size, field, layout, scratch)
    if level < 0:
        return
    gain, apart = 0.0, 0.0
    for members in range(size, size + 2):  # without the mover, then with it
        apart, gain = gain, log_weight(ZERO, members, layout, parameters, scratch)
    if gain == -math.inf:
        return  # they differ in a field that is never distorted
    mark(size + 1, TAKEN, touched, scratch)
    toggles.shown[at] = shown
    toggles.together[at] = together
    toggles.level[at] = level
    gain -= apart
    host, own = kind_of(ZERO, size, layout, scratch), step_of(mover, layout)
    gain += log_kind_weight(host + own, block, layout, prior) - log_kind_weight(
        host, block, layout, prior
    )
    toggles.log_gain[at] = gain - log_kind_weight(own, block, layout, prior) - prior.log_unit[block]


@jit_inline
def log_cluster(size, field, rate, layout, parameters, scratch):
    """Log weight in one field of the cluster in scratch.members[:size] at another rate."""
    present, distinct = 0, 0
    for i in range(size):
        level = layout.values[scratch.members[i], field]
        if level >= 0:
            present += 1
            if scratch.tally[level] == 0.0:
                scratch.seen[distinct] = level
                distinct += 1
            scratch.tally[level] += 1.0
    log_rate = math.log(rate)
    unseen, top = 1.0, present * log_rate
    for i in range(distinct):
        level = scratch.seen[i]
        theta, count = parameters.theta[level], scratch.tally[level]
        unseen -= theta
        log_shown = math.log(rate + (1.0 - rate) / theta)
        # seen again below as the level's term of the sum
        scratch.tally[level] = math.log(theta) + (present - count) * log_rate + count * log_shown
        top = max(top, scratch.tally[level])
    total = max(unseen, 0.0) * math.exp(present * log_rate - top)
    for i in range(distinct):
        total += math.exp(scratch.tally[scratch.seen[i]] - top)
        scratch.tally[scratch.seen[i]] = 0.0
    return top + math.log(total)


@entry
def find_toggles(
    first, last, seed, chain, sweep, field, rates, layout, parameters, prior, clusters, touched,
    scratch, statistics, toggles, hosts, others,
):  # fmt: skip
    """Find the toggles of blocks first..last-1 and weigh all other clusters in the field.

    Hosts are counted by how often they show which level of the field (MOST_AGREED + 1, levels). Of
    the other clusters, those that agree are counted in statistics.agreed; the log weights of the
    rest at each of the rates are summed in others (B, rates).
    """
    least = layout.field_start[field]
    for block in range(first, last):
        start, end = layout.block_start[block], layout.block_start[block + 1]
        build_rings(start, end, layout, clusters)
        touched[start:end] = FREE
        begin = toggles.block_start[block]
        pairs = toggles.block_start[block + 1] - begin
        if pairs > 0:
            numbers = stream(seed, chain, sweep, layout.block_name[block], TOGGLE)
            turn = below(low(words(numbers, field)[0]), pairs)
            for i in range(pairs):
                at = begin + (i + turn) % pairs
                examine(
                    at, block, field, touched, layout, parameters, prior, clusters, scratch, toggles
                )
                if toggles.shown[at] > 0:
                    hosts[toggles.shown[at], toggles.level[at] - least] += 1
        others[block, :] = 0.0
        for name in range(start, end):
            if clusters.entity[name] != name or clusters.size[name] == 1 or touched[name] == TAKEN:
                continue
            level = layout.values[name, field]
            if clusters.size[name] == 2 and (
                level == layout.values[clusters.following[name], field]
            ):  # by far the commonest
                if level >= 0:
                    statistics.agreed[2, level] += 1
                continue
            size = gather(name, ZERO, clusters, scratch)
            level, shown = agreed_level(ZERO, size, field, layout, scratch)
            if shown < 2:
                continue
            if level >= 0 and shown <= MOST_AGREED:
                statistics.agreed[shown, level] += 1
            else:
                for i in range(rates.shape[0]):
                    others[block, i] += log_cluster(
                        size, field, rates[i], layout, parameters, scratch
                    )


@entry
def weigh_toggles(first, last, field, layout, kinds, log_odds, toggles, sums):
    """Sum log(1 + odds) of the toggles of blocks first..last-1 at each rate, in sums (B, rates).

    kinds (MOST_AGREED + 1, levels) numbers hosts that are alike; log_odds (rates, kinds) is what
    they add to the log gain of a toggle.
    """
    least = layout.field_start[field]
    for block in range(first, last):
        for rate in range(log_odds.shape[0]):
            total, product = 0.0, 1.0
            for at in range(toggles.block_start[block], toggles.block_start[block + 1]):
                if toggles.shown[at] == 0:
                    continue
                kind = kinds[toggles.shown[at], toggles.level[at] - least]
                odds = log_odds[rate, kind] + toggles.log_gain[at]
                if odds > CERTAIN:
                    total += odds
                elif odds > -CERTAIN:
                    product *= 1.0 + math.exp(odds)
                    if product > HUGE:
                        total += math.log(product)
                        product = 1.0
            sums[block, rate] = total + math.log(product)


@entry
def draw_toggles(first, last, seed, chain, sweep, field, layout, kinds, log_odds, toggles):
    """Draw which toggles of blocks first..last-1 shall be together, log_odds (kinds,)."""
    least = layout.field_start[field]
    for block in range(first, last):
        numbers = another(stream(seed, chain, sweep, layout.block_name[block], SETTLE), field)
        begin = toggles.block_start[block]
        for at in range(begin, toggles.block_start[block + 1]):
            if toggles.shown[at] > 0:
                kind = kinds[toggles.shown[at], toggles.level[at] - least]
                odds = log_odds[kind] + toggles.log_gain[at]
                chance = uniform(words(numbers, at - begin)[0])
                toggles.wanted[at] = chance * (1.0 + math.exp(-odds)) < 1.0


@entry
def set_toggles(first, last, layout, clusters, scratch, toggles):
    """Set the toggles of blocks first..last-1 as wanted, right after they were found."""
    for block in range(first, last):
        for at in range(toggles.block_start[block], toggles.block_start[block + 1]):
            if toggles.shown[at] == 0 or toggles.together[at] == toggles.wanted[at]:
                continue
            mover = np.int64(toggles.mover[at])
            if toggles.wanted[at]:
                scratch.members[0] = mover
                size = gather(np.int64(toggles.anchor[at]), UNIT, clusters, scratch)
                link_ring(ZERO, size, layout, clusters, scratch)
            else:
                size = gather(mover, ZERO, clusters, scratch)
                link_ring(ZERO, UNIT, layout, clusters, scratch)
                link_ring(UNIT, size, layout, clusters, scratch)
