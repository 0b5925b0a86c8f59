"""What blocks with shares of their own draw and weigh, by how many clusters of each kind they have.

Whoever knows the counts of a block can do it: its random numbers are named by the block.
"""

import numpy as np

from smered.layout import BlockPrior, Floats, Int64s
from smered.priors.prior import Pooled

__all__ = ["draw_own", "pool", "weigh"]


def draw_own(
    prior: BlockPrior, names: Int64s, counts: Int64s, seed: int, chain: int, sweep: int, when: int
) -> BlockPrior:
    """Let blocks draw the weight of a cluster and their shares, counts (B, K + 1)."""
    from smered.kernels.shares import draw_shares

    log_unit, log_share = np.empty(len(counts)), np.empty((len(counts), len(prior.base)))
    draw_shares(seed, chain, sweep, when, prior.base, names, counts, log_unit, log_share)
    return prior._replace(log_unit=log_unit, log_share=log_share, base=np.empty(0))


def pool(base: Floats, names: Int64s, counts: Int64s, seed: int, chain: int, sweep: int) -> Pooled:
    """Draw what blocks say of the shares that they have in common."""
    from smered.kernels.shares import pool_shares

    found = Pooled(np.zeros(len(base), np.int64), np.zeros(1, np.int64), np.zeros(2, np.int64))
    pool_shares(seed, chain, sweep, base, names, counts, *found)
    return found


def weigh(base: Floats, counts: Int64s) -> Int64s:
    """Sum what blocks weigh, in logs (2,); see `smered.sums`."""
    from smered.kernels.shares import weigh_shares

    total = np.zeros(2, np.int64)
    weigh_shares(base, counts, total)
    return total
