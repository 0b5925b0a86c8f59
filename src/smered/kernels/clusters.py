"""Clusters as rings of records: gathering, linking, rebuilding and weighing them."""

from smered.kernels.jit import jit, jit_inline
from smered.kernels.likelihood import log_weight
from smered.kernels.mixture import is_mixture
from smered.layout import UNIT, ZERO

__all__ = ["build_rings", "gather", "gather_without", "kind_of", "link_ring", "log_kind_weight"]
__all__ += ["same_file_member", "share_of", "step_of", "weigh_clusters"]


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
def gather_without(left_out, cluster, first, clusters, scratch):
    """Copy a cluster's members but one to scratch.members[first:]; return where they end."""
    record = cluster
    while True:
        if record != left_out:
            scratch.members[first] = record
            first += 1
        record = clusters.following[record]
        if record == cluster:
            return first


@jit_inline
def step_of(record, layout):
    """What a record adds to the kind of its cluster."""
    return layout.kind_step[layout.cell_file[layout.cell[record]]]


@jit_inline
def kind_of(first, end, layout, scratch):
    """The kind of the cluster scratch.members[first:end]."""
    kind = ZERO
    for i in range(first, end):
        kind += step_of(scratch.members[i], layout)
    return kind


@jit_inline
def number_in_file(kind, file, layout):
    """How many records of a file a cluster of some kind holds."""
    return (kind >> (layout.kind_bits * file)) & ((UNIT << layout.kind_bits) - UNIT)


@jit_inline
def share_of(kind, shares, layout):
    """Which of so many shares a kind has: that of its size, or of the set of its files."""
    if layout.kind_bits == 0:
        return min(kind, shares) - 1
    pattern = ZERO
    for file in range(layout.kind_step.shape[0]):
        if number_in_file(kind, file, layout) > 0:
            pattern |= UNIT << file
    return pattern - 1


@jit_inline
def log_kind_weight(kind, block, layout, prior):
    """Log W of a cluster of some kind in a block (section 4)."""
    total = 0.0
    if layout.kind_bits == 0:
        total += prior.log_kind[0, kind]
    else:
        for file in range(layout.kind_step.shape[0]):
            number = number_in_file(kind, file, layout)
            if number > 0:
                total += prior.log_kind[file, number]
    rows, shares = prior.log_share.shape
    if shares > 1:
        total += prior.log_share[block if rows > 1 else 0, share_of(kind, shares, layout)]
    return total


@jit_inline
def link_ring(first, end, layout, clusters, scratch):
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
    clusters.kind[name] = kind_of(first, end, layout, scratch)
    return name


@jit
def build_rings(start, end, layout, clusters):
    """Rebuild rings, sizes and kinds of a block from `entity` alone; return its number of clusters.

    The order of a ring then depends on its members only, not on the moves that led to it.
    """
    count = 0
    for record in range(start, end):
        name = clusters.entity[record]
        if name == record:
            clusters.following[record] = record
            clusters.size[record] = 1
            clusters.kind[record] = step_of(record, layout)
            count += 1
        else:
            clusters.following[record] = clusters.following[name]
            clusters.following[name] = record
            clusters.size[name] += 1
            clusters.kind[name] += step_of(record, layout)
    return count


@jit
def weigh_clusters(start, end, layout, parameters, clusters, scratch):
    """Compute the log weight of every cluster of a block."""
    for record in range(start, end):
        if clusters.size[clusters.entity[record]] == 1 and not is_mixture(parameters):
            clusters.log_weight[record] = 0.0
        elif clusters.entity[record] == record:
            size = gather(record, ZERO, clusters, scratch)
            clusters.log_weight[record] = log_weight(ZERO, size, layout, parameters, scratch)


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
