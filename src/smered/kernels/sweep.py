"""What an executor hands to a thread: one part of a sweep over a range of blocks."""

from smered.kernels.clusters import build_rings, weigh_clusters
from smered.kernels.jit import entry
from smered.kernels.latent import count_latent, draw_chosen, draw_latent
from smered.kernels.moves import propose

__all__ = ["chosen_blocks", "count_blocks", "latent_blocks", "propose_blocks"]


@entry
def propose_blocks(
    first, last, seed, chain, sweep, layout, parameters, prior, clusters, scratch, statistics
):
    """Make the proposals of a sweep in blocks first..last-1."""
    for block in range(first, last):
        start, end = layout.block_start[block], layout.block_start[block + 1]
        count = build_rings(start, end, clusters)
        weigh_clusters(start, end, layout, parameters, clusters, scratch)
        if layout.proposals[block] > 0.0:
            count = propose(
                block, count, seed, chain, sweep, layout, parameters, prior, clusters, scratch,
                statistics.moves,
            )  # fmt: skip
        total = 0.0
        for record in range(start, end):
            if clusters.entity[record] == record:
                total += clusters.log_weight[record]
        statistics.block_entities[block] = count
        statistics.block_log_weight[block] = total


@entry
def count_blocks(
    first, last, seed, chain, sweep, layout, parameters, clusters, scratch, statistics
):
    """Count y and z of blocks first..last-1; see `count_latent`."""
    for block in range(first, last):
        build_rings(layout.block_start[block], layout.block_start[block + 1], clusters)
        count_latent(block, seed, chain, sweep, layout, parameters, clusters, scratch, statistics)


@entry
def chosen_blocks(
    first, last, seed, chain, sweep, chosen, layout, parameters, clusters, scratch, true
):
    """Write true values of blocks first..last-1 in some fields; see `draw_chosen`."""
    for block in range(first, last):
        build_rings(layout.block_start[block], layout.block_start[block + 1], clusters)
        draw_chosen(block, seed, chain, sweep, chosen, layout, parameters, clusters, scratch, true)


@entry
def latent_blocks(
    first, last, seed, chain, sweep, layout, parameters, clusters, scratch, true, distorted
):
    """Write y and z of blocks first..last-1; see `draw_latent`."""
    for block in range(first, last):
        build_rings(layout.block_start[block], layout.block_start[block + 1], clusters)
        draw_latent(
            block, seed, chain, sweep, layout, parameters, clusters, scratch, true, distorted
        )
