"""Proposals within a block: splits, merges and transfers, with their exact Hastings factors."""

import math

import numpy as np

from smered.kernels.clusters import (
    gather,
    kind_of,
    link_ring,
    log_kind_weight,
    same_file_member,
    share_of,
)
from smered.kernels.jit import entry, jit_inline
from smered.kernels.likelihood import log_weight
from smered.kernels.partners import choose_candidate, choose_record, log_chance, uniform_partner
from smered.kernels.rng import (
    CHOOSE,
    LEAST_LOG_UNIFORM,
    PROPOSE,
    SPLIT,
    accepted,
    below,
    high,
    low,
    stream,
    uniform,
    words,
)
from smered.kernels.shares import count_kinds
from smered.kernels.transfers import arrange_transfer, log_transfer_chances
from smered.layout import UNIT, ZERO

__all__ = ["log_change", "log_number", "propose_blocks"]

LOG_2 = math.log(2.0)
ROUNDING_INDEX = np.int64(4294967295)  # the last index of a stream, which no proposal reaches
LARGEST_LOG_COUNTS = 2000.0  # more than that of any change of the counts of kinds
LARGEST_LOG_CHANCES = 50.0  # more than the log of any ratio of weights of candidates
MERGE, SPLIT_UP, TRANSFER = 0, 2, 4  # where their proposals are counted; accepted ones after them
COIN = np.uint64(2047)  # the bits of a word that its uniform number does not use
ONE = np.uint64(1)


@jit_inline
def legal_merge(middle, end, layout, scratch):
    """Whether members[:middle] and members[middle:end] share no file free of duplicates."""
    scratch.stamp[0] += 1
    stamp = scratch.stamp[0]
    for i in range(middle):
        scratch.mark[layout.cell_file[layout.cell[scratch.members[i]]]] = stamp
    for i in range(middle, end):
        file = layout.cell_file[layout.cell[scratch.members[i]]]
        if layout.single[file] and scratch.mark[file] == stamp:
            return False
    return True


@jit_inline
def log_change(one, two, middle, size, block, layout, parameters, prior, clusters, scratch):
    """Log ratio of the target if clusters gave way to others, and the log weights of those.

    Clusters `one` and `two`, or a single one if these are equal, give way to members[:middle] and
    members[middle:size], or a single one if middle = size. The prior's factor for their number is
    left out.
    """
    log_ratio = -clusters.log_weight[one] - log_kind_weight(
        clusters.kind[one], block, layout, prior
    )
    if two != one:
        log_ratio -= clusters.log_weight[two] + log_kind_weight(
            clusters.kind[two], block, layout, prior
        )
    left, right = 0.0, 0.0
    first = ZERO
    for last in (middle, size):
        if last > first:
            left, right = right, log_weight(first, last - first, layout, parameters, scratch)
            kind = kind_of(first, last, layout, scratch)
            log_ratio += right + log_kind_weight(kind, block, layout, prior)
        first = last
    return log_ratio, left, right


@jit_inline
def log_change_of_counts(one, two, middle, size, pooling, layout, prior, clusters, scratch):
    """Log ratio of a block's prior, its shares summed out, and the counts after the change (25).

    scratch.kinds holds the block's clusters of each kind, its last entry the sum of all.
    """
    counts, base = scratch.kinds, prior.base
    last = base.shape[0]
    ratio = 1.0
    for i in range(1 if one == two else 2):
        kind = share_of(clusters.kind[one if i == 0 else two], last, layout)
        counts[kind] -= 1
        counts[last] -= 1
        ratio *= (pooling + counts[last]) / ((counts[last] + 1.0) * (base[kind] + counts[kind]))
    first = ZERO
    for end in (middle, size):
        if end > first:
            kind = share_of(kind_of(first, end, layout, scratch), last, layout)
            ratio *= (base[kind] + counts[kind]) * (counts[last] + 1.0) / (pooling + counts[last])
            counts[kind] += 1
            counts[last] += 1
        first = end
    return math.log(ratio)


@jit_inline
def undo_change_of_counts(one, two, middle, size, layout, prior, clusters, scratch):
    """Give scratch.kinds back what it was."""
    counts, last = scratch.kinds, prior.base.shape[0]
    first = ZERO
    for end in (middle, size):
        if end > first:
            counts[share_of(kind_of(first, end, layout, scratch), last, layout)] -= 1
            counts[last] -= 1
        first = end
    counts[share_of(clusters.kind[one], last, layout)] += 1
    counts[last] += 1
    if two != one:
        counts[share_of(clusters.kind[two], last, layout)] += 1
        counts[last] += 1


@jit_inline
def log_number(more, log_unit, free):
    """Log of the prior's factor for one cluster more (1), one less (-1) or as many (0).

    free: the block's free labels as it is now, or UNLIMITED (equation 8).
    """
    if more == 0:
        return 0.0
    if free < 0:
        return more * log_unit
    return log_unit + math.log(free) if more > 0 else -log_unit - math.log(free + 1)


@jit_inline
def link_pieces(middle, size, left, right, layout, clusters, scratch):
    """Make clusters of members[:middle] and members[middle:size], with these log weights."""
    first = ZERO
    for last in (middle, size):
        if last > first:
            name = link_ring(first, last, layout, clusters, scratch)
            clusters.log_weight[name] = left if last < size else right
        first = last


@jit_inline
def deal(cluster, record, partner, split_stream, dealt, clusters, scratch):
    """Deal a cluster's members to two sides by fair coins, seeded by `record` and `partner`.

    Leaves the sides in scratch.members[:middle] and [middle:size]; returns middle and how many
    words of the split stream were used so far.
    """
    size = np.int64(clusters.size[cluster])
    left, right = 1, size - 1
    scratch.members[0] = record
    scratch.members[size - 1] = partner
    bits, bits_left = np.uint64(0), 0
    member = clusters.following[record]
    while member != record:
        if member != partner:
            if bits_left == 0:
                bits = words(split_stream, dealt)[0]
                dealt += 1
                bits_left = 64
            if bits & ONE:
                scratch.members[left] = member
                left += 1
            else:
                right -= 1
                scratch.members[right] = member
            bits = bits >> ONE
            bits_left -= 1
        member = clusters.following[member]
    return left, dealt


@entry
def propose_blocks(
    first, last, seed, chain, sweep, layout, parameters, prior, clusters, scratch, statistics
):
    """Make one sweep's proposals in blocks first..last-1, whose clusters were weighed.

    Four kernels, each exact by itself, are mixed without looking at the linkage: splits and merges
    by uniform pairs, splits and merges by candidates, transfers by candidates, and departures of a
    record from its cluster with arrivals of lone records. The first takes every record equally
    often, the others take records by their weights. All of them let one or two clusters give way
    to others, which they arrange in scratch.members; one place weighs, decides and links these.
    """
    moves = statistics.moves
    for block in range(first, last):
        start, end = layout.block_start[block], layout.block_start[block + 1]
        records = end - start
        choices = stream(seed, chain, sweep, layout.block_name[block], PROPOSE)
        finer = stream(seed, chain, sweep, layout.block_name[block], CHOOSE)
        spare = stream(seed, chain, sweep, layout.block_name[block], SPLIT)
        used = ZERO
        log_unit, free = prior.log_unit[block], prior.free[block]
        collapsed, pooling = prior.base.shape[0] > 0, prior.base.sum()
        if collapsed:
            count_kinds(start, end, layout, clusters, scratch.kinds)
        expected = layout.proposals[block]
        proposals = int(expected)
        if uniform(words(choices, ROUNDING_INDEX)[0]) < expected - proposals:
            proposals += 1

        for t in range(proposals):
            pair, decision = words(choices, t)
            column, slot = words(finer, t)
            coin = np.int64(decision & COIN)
            if coin < layout.uniform_share:
                record = start + below(low(pair), records)
            else:
                record = choose_record(low(pair), column, start, records, layout)
            has_candidates = layout.candidate_start[record + 1] > layout.candidate_start[record]
            one = np.int64(clusters.entity[record])
            alone = coin >= layout.uniform_share and coin & 3 == 3  # the record moves by itself
            if alone and clusters.size[one] > 1:
                partner = record
            else:
                toss = np.int64(high(column) & COIN) if alone else coin
                if has_candidates and toss >= layout.uniform_share:
                    partner = choose_candidate(record, slot, layout)
                else:
                    partner = uniform_partner(record, high(pair), start, end, layout)
                    if partner < 0:
                        continue
            two = np.int64(clusters.entity[partner])
            transferring = (
                not alone and has_candidates and coin >= layout.uniform_share and coin & 3 == 2
            )
            rival = np.int64(-1)
            if one != two and (alone or transferring):
                rival = same_file_member(record, two, layout, clusters)

            log_back = 0.0  # of the chance to propose exactly what leads back over that of this
            if transferring:
                if one == two or (clusters.size[one] == 1 and rival < 0):
                    continue  # nothing to do, or a merge in disguise
                move, more = TRANSFER, 0
                middle, size = arrange_transfer(record, rival, two, clusters, scratch)
            elif one != two:
                moves[MERGE] += 1
                middle = gather(one, ZERO, clusters, scratch)
                size = gather(two, middle, clusters, scratch)
                if rival >= 0 or not legal_merge(middle, size, layout, scratch):
                    continue
                if alone:  # a departure leads back, whatever the pair
                    members = size - middle
                    log_back = -log_chance(record, two, members, start, end, layout, clusters)
                else:  # the split that leads back deals all but the pair exactly so
                    log_back = -(size - 2) * LOG_2
                move, more = MERGE, -1
                middle = size
            else:
                moves[SPLIT_UP] += 1
                if free == 0:
                    continue
                move, more = SPLIT_UP, 1
                size = np.int64(clusters.size[one])
                if alone:
                    middle = UNIT
                    gather(record, ZERO, clusters, scratch)  # the record first
                    log_back = log_chance(record, one, size - 1, start, end, layout, clusters)
                else:
                    middle, used = deal(one, record, partner, spare, used, clusters, scratch)
                    log_back = (size - 2) * LOG_2

            log_ratio, left, right = log_change(
                one, two, middle, size, block, layout, parameters, prior, clusters, scratch
            )
            log_ratio += log_number(more, log_unit, free) + log_back
            counted = collapsed and log_ratio > LEAST_LOG_UNIFORM - LARGEST_LOG_COUNTS
            if counted:
                log_ratio += log_change_of_counts(
                    one, two, middle, size, pooling, layout, prior, clusters, scratch
                )
            if move == TRANSFER:
                moves[TRANSFER] += 1
                if log_ratio > LEAST_LOG_UNIFORM - LARGEST_LOG_CHANCES:
                    log_ratio += log_transfer_chances(record, rival, one, two, layout, clusters)
            if accepted(log_ratio, decision):
                link_pieces(middle, size, left, right, layout, clusters, scratch)
                moves[move + 1] += 1
                if free >= 0:
                    free -= more
            elif counted:
                undo_change_of_counts(one, two, middle, size, layout, prior, clusters, scratch)
