"""What an executor hands to a thread besides proposals: one part of a sweep over some blocks."""

from smered.kernels.clusters import build_rings, gather, weigh_clusters
from smered.kernels.jit import entry
from smered.kernels.latent import count_latent, draw_chosen, draw_latent
from smered.kernels.likelihood import log_field_weight
from smered.kernels.tally import add_whole
from smered.layout import ZERO

__all__ = ["chosen_blocks", "count_blocks", "latent_blocks", "weigh_blocks", "weigh_field"]


@entry
def weigh_blocks(first, last, layout, parameters, clusters, scratch):
    """Rebuild the rings of blocks first..last-1 and weigh their clusters."""
    for block in range(first, last):
        start, end = layout.block_start[block], layout.block_start[block + 1]
        build_rings(start, end, layout, clusters)
        weigh_clusters(start, end, layout, parameters, clusters, scratch)


@entry
def weigh_field(first, last, field, layout, parameters, clusters, scratch, total):
    """Sum the log weights of clusters of blocks first..last-1 in one field, in whole numbers."""
    for block in range(first, last):
        start, end = layout.block_start[block], layout.block_start[block + 1]
        build_rings(start, end, layout, clusters)
        for record in range(start, end):
            if clusters.entity[record] == record and clusters.size[record] > 1:
                size = gather(record, ZERO, clusters, scratch)
                weight = log_field_weight(ZERO, size, field, layout, parameters, scratch)
                add_whole(weight, total)


@entry
def count_blocks(
    first, last, seed, chain, sweep, layout, parameters, clusters, scratch, statistics
):
    """Count entities, y and z of blocks first..last-1, and sum the weights of their clusters.

    See `count_latent`. Rings are rebuilt, so that what is drawn depends on the linkage alone.
    """
    for block in range(first, last):
        start, end = layout.block_start[block], layout.block_start[block + 1]
        statistics.entities[0] += build_rings(start, end, layout, clusters)
        for record in range(start, end):
            if clusters.entity[record] == record:
                add_whole(clusters.log_weight[record], statistics.log_weight)
        count_latent(block, seed, chain, sweep, layout, parameters, clusters, scratch, statistics)


@entry
def chosen_blocks(
    first, last, seed, chain, sweep, chosen, layout, parameters, clusters, scratch, true
):
    """Write true values of blocks first..last-1 in some fields; see `draw_chosen`."""
    for block in range(first, last):
        build_rings(layout.block_start[block], layout.block_start[block + 1], layout, clusters)
        draw_chosen(block, seed, chain, sweep, chosen, layout, parameters, clusters, scratch, true)


@entry
def latent_blocks(
    first, last, seed, chain, sweep, layout, parameters, clusters, scratch, true, distorted
):
    """Write y and z of blocks first..last-1; see `draw_latent`."""
    for block in range(first, last):
        build_rings(layout.block_start[block], layout.block_start[block + 1], layout, clusters)
        draw_latent(
            block, seed, chain, sweep, layout, parameters, clusters, scratch, true, distorted
        )
