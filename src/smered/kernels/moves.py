"""Proposals within a block: splits, merges and transfers, with their exact Hastings factors."""

import math

import numpy as np

from smered.kernels.jit import jit, jit_inline
from smered.kernels.likelihood import log_weight
from smered.kernels.rng import PROPOSE, SPLIT, below, high, low, stream, uniform, words

__all__ = ["build_rings", "gather", "propose", "weigh_clusters"]

LOG_2 = math.log(2.0)
LEAST_LOG_UNIFORM = -37.0  # below the logarithm of the smallest positive uniform, 2**-53
LARGEST_LOG_CHANCES = 50.0  # more than the log of any ratio of shares of candidates
ROUNDING_INDEX = 4294967295  # the last index of a stream, which no proposal reaches
COIN = np.uint64(2047)  # the bits of a word that its uniform number does not use
ONE = np.uint64(1)


@jit_inline
def gather(cluster, first, clusters, scratch):
    """Copy a cluster's members to scratch.members[first:]; return where they end."""
    record = cluster
    while True:
        scratch.members[first] = record
        first += 1
        record = clusters.following[record]
        if record == cluster:
            return first


@jit_inline
def link_ring(first, end, clusters, scratch):
    """Make scratch.members[first:end] one cluster named by its first record; return the name."""
    name = scratch.members[first]
    for i in range(first + 1, end):
        name = min(name, scratch.members[i])
    previous = scratch.members[end - 1]
    for i in range(first, end):
        record = scratch.members[i]
        clusters.entity[record] = name
        clusters.following[previous] = record
        previous = record
    clusters.size[name] = end - first
    return name


@jit
def build_rings(start, end, clusters):
    """Rebuild rings and sizes of a block from `entity` alone; return its number of clusters.

    The order of a ring then depends on its members only, not on the moves that led to it.
    """
    count = 0
    for record in range(start, end):
        name = clusters.entity[record]
        if name == record:
            clusters.following[record] = record
            clusters.size[record] = 1
            count += 1
        else:
            clusters.following[record] = clusters.following[name]
            clusters.following[name] = record
            clusters.size[name] += 1
    return count


@jit
def weigh_clusters(start, end, layout, parameters, clusters, scratch):
    """Compute the log weight of every cluster of a block."""
    for record in range(start, end):
        if clusters.entity[record] == record:
            size = gather(record, 0, clusters, scratch)
            clusters.log_weight[record] = log_weight(0, size, layout, parameters, scratch)


@jit_inline
def uniform_partner(record, bits, start, end, layout):
    """Choose any record of the block that may share an entity with a record; -1 if there is none.

    That leaves out its own cell when its file holds no duplicates, otherwise itself alone.
    """
    cell = layout.cell[record]
    if layout.single[layout.cell_file[cell]]:
        skip, skip_end = layout.cell_start[cell], layout.cell_start[cell + 1]
    else:
        skip, skip_end = record, record + 1
    others = (end - start) - (skip_end - skip)
    if others <= 0:
        return -1
    partner = start + below(bits, others)
    return partner if partner < skip else partner + (skip_end - skip)


@jit_inline
def candidates_in(record, name, layout, clusters):
    """The share of a record's candidates that are in the cluster `name`."""
    first, last = layout.candidate_start[record], layout.candidate_start[record + 1]
    inside = 0
    for i in range(first, last):
        if clusters.entity[layout.candidates[i]] == name:
            inside += 1
    return inside / max(last - first, 1)


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
def accepted(log_ratio, word):
    """The Metropolis decision, without a logarithm where it cannot matter."""
    if log_ratio >= 0.0:
        return True
    if log_ratio < LEAST_LOG_UNIFORM:
        return False
    return math.log(1.0 - uniform(word)) < log_ratio


@jit_inline
def log_merge_ratio(merged, one, two, size_one, size_two, log_unit, free, prior):
    """Log acceptance ratio of merging two clusters; its negative is that of the split (equation 6).

    merged, one, two: log weights; free: the block's free labels while the clusters are apart, or
    UNLIMITED. The pair's probability cancels. With s records in all, the reverse of a merge deals
    s - 2 of them exactly so, which has probability 2**-(s - 2): the Hastings factor.
    """
    size = size_one + size_two
    log_prior = (
        prior.log_size[size] - prior.log_size[size_one] - prior.log_size[size_two] - log_unit
    )
    if free >= 0:
        log_prior -= math.log(free + 1)
    return merged - one - two + log_prior - (size - 2) * LOG_2


@jit_inline
def deal(cluster, record, partner, split_stream, dealt, clusters, scratch):
    """Deal a cluster's members to two sides by fair coins, seeded by `record` and `partner`.

    Leaves the sides in scratch.members[:middle] and [middle:size]; returns middle and how many
    words of the split stream were used so far.
    """
    size = clusters.size[cluster]
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


@jit_inline
def same_file_member(record, name, layout, clusters):
    """The member of a cluster that shares the record's file, if that holds no duplicates, or -1."""
    cell = layout.cell[record]
    if layout.single[layout.cell_file[cell]]:
        member = name
        while True:
            if layout.cell[member] == cell:
                return member
            member = clusters.following[member]
            if member == name:
                break
    return -1


@jit_inline
def transfer(record, one, two, word, layout, parameters, prior, clusters, scratch):
    """Propose that a record leaves cluster `one` for cluster `two` (equation 7).

    If `two` holds a record of the same file, which may hold no duplicates, the two change places.
    Transfers are proposed by candidates only. What leads back is a candidate of the record in the
    cluster it left; where it was alone, a candidate of its rival in the cluster that that left.
    The Hastings factor is the ratio of the chances to choose such a candidate. Returns 1 if
    accepted, 0 if rejected, -1 if there was nothing to propose.
    """
    rival = same_file_member(record, two, layout, clusters)
    size_one, size_two = clusters.size[one], clusters.size[two]
    if size_one == 1 and rival < 0:
        return -1  # a merge in disguise
    # members[:middle]: cluster one after the transfer; members[middle:size]: cluster two
    middle = 0
    member = clusters.following[record]
    while member != record:
        scratch.members[middle] = member
        middle += 1
        member = clusters.following[member]
    if rival >= 0:
        scratch.members[middle] = rival
        middle += 1
    size = middle
    member = two
    while True:
        if member != rival:
            scratch.members[size] = member
            size += 1
        member = clusters.following[member]
        if member == two:
            break
    scratch.members[size] = record
    size += 1

    left = log_weight(0, middle, layout, parameters, scratch)
    right = log_weight(middle, size - middle, layout, parameters, scratch)
    log_ratio = (
        left
        + right
        - clusters.log_weight[one]
        - clusters.log_weight[two]
        + prior.log_size[middle]
        + prior.log_size[size - middle]
        - prior.log_size[size_one]
        - prior.log_size[size_two]
    )
    if log_ratio < LEAST_LOG_UNIFORM - LARGEST_LOG_CHANCES:
        return 0
    forward = candidates_in(record, two, layout, clusters)
    if size_one > 1:
        back = candidates_in(record, one, layout, clusters)
    else:
        back = candidates_in(rival, two, layout, clusters)
    if back == 0.0:
        return 0  # no pair leads back
    log_ratio += math.log(back / forward)
    if not accepted(log_ratio, word):
        return 0
    clusters.log_weight[link_ring(0, middle, clusters, scratch)] = left
    clusters.log_weight[link_ring(middle, size, clusters, scratch)] = right
    return 1


@jit
def propose(block, count, seed, chain, sweep, layout, parameters, prior, clusters, scratch, moves):
    """Make one sweep's proposals in a block; return its number of clusters."""
    start, end = layout.block_start[block], layout.block_start[block + 1]
    records = end - start
    choices = stream(seed, chain, sweep, block, PROPOSE)
    split_stream = stream(seed, chain, sweep, block, SPLIT)
    dealt = 0
    log_unit, free = prior.log_unit[block], prior.free[block]
    limited = free >= 0
    expected = layout.proposals[block]
    proposals = int(expected)
    if uniform(words(choices, ROUNDING_INDEX)[0]) < expected - proposals:
        proposals += 1

    for t in range(proposals):
        pair, decision = words(choices, t)
        record = start + below(low(pair), records)
        first = layout.candidate_start[record]
        candidates = layout.candidate_start[record + 1] - first
        coin = np.int64(decision & COIN)
        informed = candidates > 0 and coin >= layout.uniform_share
        if informed:
            partner = np.int64(layout.candidates[first + below(high(pair), candidates)])
        else:
            partner = uniform_partner(record, high(pair), start, end, layout)
            if partner < 0:
                continue
        one, two = clusters.entity[record], clusters.entity[partner]
        # Three kernels, each exact by itself, are mixed without looking at the linkage: splits and
        # merges by uniform pairs, splits and merges by candidates, transfers by candidates.
        if informed and coin & 1:
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
            middle = gather(one, 0, clusters, scratch)
            size = gather(two, middle, clusters, scratch)
            if not legal_merge(middle, size, layout, scratch):
                continue
            merged = log_weight(0, size, layout, parameters, scratch)
            log_ratio = log_merge_ratio(
                merged,
                clusters.log_weight[one],
                clusters.log_weight[two],
                middle,
                size - middle,
                log_unit,
                free,
                prior,
            )
            if accepted(log_ratio, decision):
                clusters.log_weight[link_ring(0, size, clusters, scratch)] = merged
                count -= 1
                moves[1] += 1
                if limited:
                    free += 1
        else:
            moves[2] += 1
            if limited and free == 0:
                continue
            size = clusters.size[one]
            middle, dealt = deal(one, record, partner, split_stream, dealt, clusters, scratch)
            left = log_weight(0, middle, layout, parameters, scratch)
            right = log_weight(middle, size - middle, layout, parameters, scratch)
            log_ratio = -log_merge_ratio(
                clusters.log_weight[one],
                left,
                right,
                middle,
                size - middle,
                log_unit,
                free - 1 if limited else free,
                prior,
            )
            if accepted(log_ratio, decision):
                clusters.log_weight[link_ring(0, middle, clusters, scratch)] = left
                clusters.log_weight[link_ring(middle, size, clusters, scratch)] = right
                count += 1
                moves[3] += 1
                if limited:
                    free -= 1
    return count
