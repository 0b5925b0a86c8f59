"""Transfers: one record changes its cluster, or two records change places (equation 7)."""

import math

from smered.kernels.clusters import link_ring, same_file_member
from smered.kernels.jit import jit_inline
from smered.kernels.likelihood import log_weight
from smered.kernels.partners import candidates_in
from smered.kernels.rng import LEAST_LOG_UNIFORM, accepted
from smered.layout import ZERO

__all__ = ["arrange_transfer", "log_transfer_ratio", "transfer"]

LARGEST_LOG_CHANCES = 50.0  # more than the log of any ratio of weights of candidates


@jit_inline
def arrange_transfer(record, rival, two, clusters, scratch):
    """Gather the clusters as they are after a transfer; return where each ends.

    scratch.members[:middle]: what the record leaves, with its rival if it has one (not -1);
    [middle:size]: the cluster `two` with the record.
    """
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
    return middle, size + 1


@jit_inline
def log_transfer_ratio(left, right, one, two, size_left, size_right, prior, clusters):
    """Log ratio of the targets after and before a transfer between clusters `one` and `two`."""
    return (
        left
        + right
        - clusters.log_weight[one]
        - clusters.log_weight[two]
        + prior.log_size[size_left]
        + prior.log_size[size_right]
        - prior.log_size[clusters.size[one]]
        - prior.log_size[clusters.size[two]]
    )


@jit_inline
def transfer(record, one, two, word, layout, parameters, prior, clusters, scratch):
    """Propose that a record leaves cluster `one` for cluster `two` (equation 7).

    If `two` holds a record of the same file, which may hold no duplicates, the two change places.
    Transfers are proposed by candidates only. What leads back is a candidate of the record in the
    cluster it left; where it was alone, a candidate of its rival in the cluster that that left.
    The Hastings factor is the ratio of the chances to choose such a candidate, that is, of their
    weights. Returns 1 if accepted, 0 if rejected, -1 if there was nothing to propose.
    """
    rival = same_file_member(record, two, layout, clusters)
    if clusters.size[one] == 1 and rival < 0:
        return -1  # a merge in disguise
    middle, size = arrange_transfer(record, rival, two, clusters, scratch)
    left = log_weight(ZERO, middle, layout, parameters, scratch)
    right = log_weight(middle, size - middle, layout, parameters, scratch)
    log_ratio = log_transfer_ratio(left, right, one, two, middle, size - middle, prior, clusters)
    if log_ratio < LEAST_LOG_UNIFORM - LARGEST_LOG_CHANCES:
        return 0
    forward, _ = candidates_in(record, two, layout, clusters)
    if clusters.size[one] > 1:
        back, _ = candidates_in(record, one, layout, clusters)
    else:
        back, _ = candidates_in(rival, two, layout, clusters)
    if back == 0.0:
        return 0  # no pair leads back
    log_ratio += math.log(back / forward)
    if not accepted(log_ratio, word):
        return 0
    clusters.log_weight[link_ring(ZERO, middle, clusters, scratch)] = left
    clusters.log_weight[link_ring(middle, size, clusters, scratch)] = right
    return 1
