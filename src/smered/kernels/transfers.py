"""Transfers: one record changes its cluster, or two records change places (equation 7)."""

import math

from smered.kernels.clusters import gather_without
from smered.kernels.jit import jit_inline
from smered.kernels.partners import candidates_in
from smered.layout import ZERO

__all__ = ["arrange_transfer", "log_transfer_chances"]


@jit_inline
def arrange_transfer(record, rival, two, clusters, scratch):
    """Gather the clusters as they are after a transfer; return where each ends.

    scratch.members[:middle]: what the record leaves, with its rival if it has one (not -1);
    [middle:size]: the cluster `two` with the record.
    """
    middle = gather_without(record, record, ZERO, clusters, scratch)
    if rival >= 0:
        scratch.members[middle] = rival
        middle += 1
    size = gather_without(rival, two, middle, clusters, scratch)
    scratch.members[size] = record
    return middle, size + 1


@jit_inline
def log_transfer_chances(record, rival, one, two, layout, clusters):
    """Log of the chance of the transfer that leads back over that of this one.

    Transfers are proposed by candidates only. What leads back is a candidate of the record in the
    cluster it left; where it was alone, a candidate of its rival in the cluster that that left.
    The ratio of the chances to choose such a candidate is that of their weights. -inf if no pair
    leads back.
    """
    forward, _ = candidates_in(record, two, layout, clusters)
    if clusters.size[one] > 1:
        back, _ = candidates_in(record, one, layout, clusters)
    else:
        back, _ = candidates_in(rival, two, layout, clusters)
    return math.log(back / forward) if back > 0 else -math.inf
