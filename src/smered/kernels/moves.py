"""Proposals within a block: splits, merges and transfers, with their exact Hastings factors."""

import math

import numpy as np

from smered.kernels.clusters import gather, link_ring, same_file_member
from smered.kernels.jit import jit, jit_inline
from smered.kernels.likelihood import log_weight
from smered.kernels.partners import choose_candidate, choose_record, log_chance, uniform_partner
from smered.kernels.rng import (
    CHOOSE,
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
from smered.kernels.transfers import transfer
from smered.layout import UNIT, ZERO

__all__ = ["log_merge_ratio", "propose"]

LOG_2 = math.log(2.0)
ROUNDING_INDEX = np.int64(4294967295)  # the last index of a stream, which no proposal reaches
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
def log_merge_ratio(merged, one, two, size_one, size_two, log_unit, free, log_back, prior):
    """Log acceptance ratio of joining two clusters; its negative is that of parting (equation 6).

    merged, one, two: log weights; free: the block's free labels while the clusters are apart, or
    UNLIMITED; log_back: log of the chance to propose exactly this parting over that of the joining.
    """
    size = size_one + size_two
    log_prior = (
        prior.log_size[size] - prior.log_size[size_one] - prior.log_size[size_two] - log_unit
    )
    if free >= 0:
        log_prior -= math.log(free + 1)
    return merged - one - two + log_prior + log_back


@jit_inline
def join(one, two, log_back, word, log_unit, free, layout, parameters, prior, clusters, scratch):
    """Propose to join two clusters; return whether they were."""
    middle = gather(one, ZERO, clusters, scratch)
    size = gather(two, middle, clusters, scratch)
    if not legal_merge(middle, size, layout, scratch):
        return False
    merged = log_weight(ZERO, size, layout, parameters, scratch)
    log_ratio = log_merge_ratio(
        merged,
        clusters.log_weight[one],
        clusters.log_weight[two],
        middle,
        size - middle,
        log_unit,
        free,
        log_back,
        prior,
    )
    if not accepted(log_ratio, word):
        return False
    clusters.log_weight[link_ring(ZERO, size, clusters, scratch)] = merged
    return True


@jit_inline
def part(
    name, middle, log_back, word, log_unit, free, layout, parameters, prior, clusters, scratch
):
    """Propose to part a cluster into members[:middle] and the rest; return whether it was.

    free: the block's free labels once the cluster is parted, or UNLIMITED.
    """
    size = np.int64(clusters.size[name])
    left = log_weight(ZERO, middle, layout, parameters, scratch)
    right = log_weight(middle, size - middle, layout, parameters, scratch)
    log_ratio = -log_merge_ratio(
        clusters.log_weight[name],
        left,
        right,
        middle,
        size - middle,
        log_unit,
        free,
        log_back,
        prior,
    )
    if not accepted(log_ratio, word):
        return False
    clusters.log_weight[link_ring(ZERO, middle, clusters, scratch)] = left
    clusters.log_weight[link_ring(middle, size, clusters, scratch)] = right
    return True


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


@jit
def propose(block, count, seed, chain, sweep, layout, parameters, prior, clusters, scratch, moves):
    """Make one sweep's proposals in a block; return its number of clusters.

    Four kernels, each exact by itself, are mixed without looking at the linkage: splits and merges
    by uniform pairs, splits and merges by candidates, transfers by candidates, and departures of a
    record from its cluster with arrivals of lone records. The first takes every record equally
    often, the others take records by their weights.
    """
    start, end = layout.block_start[block], layout.block_start[block + 1]
    records = end - start
    choices = stream(seed, chain, sweep, block, PROPOSE)
    finer = stream(seed, chain, sweep, block, CHOOSE)
    spare = stream(seed, chain, sweep, block, SPLIT)
    used = ZERO
    log_unit, free = prior.log_unit[block], prior.free[block]
    limited = free >= 0
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
        size = np.int64(clusters.size[one])
        alone = coin >= layout.uniform_share and coin & 3 == 3  # the record moves by itself
        if alone and size > 1:
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

        if not alone and has_candidates and coin >= layout.uniform_share and coin & 3 == 2:
            if one == two:
                continue
            outcome = transfer(
                record, one, two, decision, layout, parameters, prior, clusters, scratch
            )
            if outcome >= 0:
                moves[4] += 1
                moves[5] += outcome
        elif one != two:
            moves[0] += 1
            if alone:  # a departure leads back, whatever the pair
                members = np.int64(clusters.size[two])
                if same_file_member(record, two, layout, clusters) >= 0:
                    continue
                log_back = -log_chance(record, two, members, start, end, layout, clusters)
            else:  # the split that leads back deals all but the pair exactly so
                log_back = -(size + clusters.size[two] - 2) * LOG_2
            if join(
                one,
                two,
                log_back,
                decision,
                log_unit,
                free,
                layout,
                parameters,
                prior,
                clusters,
                scratch,
            ):
                count -= 1
                moves[1] += 1
                if limited:
                    free += 1
        else:
            moves[2] += 1
            if limited and free == 0:
                continue
            if alone:
                middle = UNIT
                gather(record, ZERO, clusters, scratch)  # the record first
                log_back = -log_chance(record, one, size - 1, start, end, layout, clusters)
            else:
                middle, used = deal(one, record, partner, spare, used, clusters, scratch)
                log_back = -(size - 2) * LOG_2
            if part(
                one,
                middle,
                log_back,
                decision,
                log_unit,
                free - 1 if limited else free,
                layout,
                parameters,
                prior,
                clusters,
                scratch,
            ):
                count += 1
                moves[3] += 1
                if limited:
                    free -= 1
    return count
