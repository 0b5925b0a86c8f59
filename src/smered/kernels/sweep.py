"""One sweep over a range of blocks: what an executor hands to a thread."""

from smered.kernels.jit import jit
from smered.kernels.latent import draw_latent
from smered.kernels.moves import build_rings, propose, weigh_clusters

__all__ = ["latent_blocks", "sweep_blocks"]


@jit
def sweep_blocks(
    first,
    last,
    seed,
    chain,
    sweep,
    layout,
    parameters,
    prior,
    clusters,
    scratch,
    statistics,
    nothing,
):
    """Propose splits and merges in blocks first..last-1, then draw y and z and count them.

    nothing (0, 0): where y and z go when only their counts are wanted.
    """
    for block in range(first, last):
        start, end = layout.block_start[block], layout.block_start[block + 1]
        count = build_rings(start, end, clusters)
        weigh_clusters(start, end, layout, parameters, clusters, scratch)
        if layout.proposals[block] > 0.0:
            count = propose(
                block,
                count,
                seed,
                chain,
                sweep,
                layout,
                parameters,
                prior,
                clusters,
                scratch,
                statistics.moves,
            )
            build_rings(start, end, clusters)
        statistics.block_entities[block] = count
        statistics.block_log_weight[block] = total_log_weight(start, end, clusters)
        draw_latent(
            block,
            seed,
            chain,
            sweep,
            layout,
            parameters,
            clusters,
            scratch,
            statistics,
            nothing,
            nothing,
        )


@jit
def total_log_weight(start, end, clusters):
    """Sum the log weights of the clusters of a block."""
    total = 0.0
    for record in range(start, end):
        if clusters.entity[record] == record:
            total += clusters.log_weight[record]
    return total


@jit
def latent_blocks(
    first,
    last,
    seed,
    chain,
    sweep,
    layout,
    parameters,
    clusters,
    scratch,
    statistics,
    true,
    distorted,
):
    """Draw y and z of blocks first..last-1, as the sweep with these numbers drew them."""
    for block in range(first, last):
        start, end = layout.block_start[block], layout.block_start[block + 1]
        build_rings(start, end, clusters)
        draw_latent(
            block,
            seed,
            chain,
            sweep,
            layout,
            parameters,
            clusters,
            scratch,
            statistics,
            true,
            distorted,
        )
