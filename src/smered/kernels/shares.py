"""Blocks with their own number of entities and their own shares of kinds (equations 23 and 24)."""

import math

import numpy as np

from smered.kernels.clusters import share_of
from smered.kernels.jit import entry, jit, jit_inline
from smered.kernels.rng import POOL, SHARE, another, stream, uniform, words
from smered.kernels.tally import add_whole

__all__ = ["count_kinds", "count_shares", "draw_shares", "pool_shares", "weigh_shares"]

WHEN = 256  # numbers of streams to a purpose: one for each share, and one for the clusters
ENTITIES, LEFT, STOP = 255, 254, 253


@jit
def log_gamma_variate(shape, numbers):
    """Draw the logarithm of a Gamma variate (Marsaglia and Tsang 2000)."""
    log_boost = 0.0
    if shape < 1.0:
        log_boost = math.log(1.0 - uniform(words(numbers, 0)[0])) / shape
        shape += 1.0
    d = shape - 1.0 / 3.0
    c = 1.0 / math.sqrt(9.0 * d)
    index = np.int64(1)
    while True:
        radius, angle = words(numbers, index)
        normal = math.sqrt(-2.0 * math.log(1.0 - uniform(radius)))
        normal *= math.cos(2.0 * math.pi * uniform(angle))
        root = 1.0 + c * normal
        if root > 0.0:
            v = root * root * root
            log_u = math.log(1.0 - uniform(words(numbers, index + 1)[0]))
            if log_u < 0.5 * normal * normal + d - d * v + d * math.log(v):
                return math.log(d * v) + log_boost
        index += 2


@jit_inline
def log_add(one, two):
    """Log of the sum of two numbers given by their logarithms."""
    top = max(one, two)
    return top + math.log1p(math.exp(min(one, two) - top))


@jit
def count_kinds(start, end, layout, clusters, counts):
    """Count a block's clusters by the share of their kind, counts (K + 1,), then all."""
    counts[:] = 0
    last = counts.shape[0] - 1
    for record in range(start, end):
        name = clusters.entity[record]
        step = layout.kind_step[layout.cell_file[layout.cell[record]]]
        if name == record:
            clusters.kind[record] = step
        else:
            clusters.kind[name] += step
    for record in range(start, end):
        if clusters.entity[record] == record:
            counts[share_of(clusters.kind[record], last, layout)] += 1
            counts[last] += 1


@entry
def count_shares(first, last, layout, clusters, counts):
    """Count the clusters of blocks first..last-1 by the share of their kind: counts (B, K + 1)."""
    for block in range(first, last):
        start, end = layout.block_start[block], layout.block_start[block + 1]
        count_kinds(start, end, layout, clusters, counts[block])


@entry
def draw_shares(seed, chain, sweep, when, base, block_name, counts, log_unit, log_share):
    """Draw what makes clusters of all blocks independent, given their counts (B, K + 1).

    log_unit (B,): the logarithm of t ~ Gamma(N_b + 1); log_share (B, K): that of the shares,
    Dirichlet(base + clusters of each kind).
    """
    kinds = base.shape[0]
    for block in range(counts.shape[0]):
        numbers = stream(seed, chain, sweep, block_name[block], SHARE)
        total = -math.inf
        for kind in range(kinds):
            own = another(numbers, when * WHEN + kind)
            drawn = log_gamma_variate(base[kind] + counts[block, kind], own)
            log_share[block, kind] = drawn
            total = drawn if kind == 0 else log_add(total, drawn)
        for kind in range(kinds):
            log_share[block, kind] -= total
        own = another(numbers, when * WHEN + ENTITIES)
        log_unit[block] = log_gamma_variate(counts[block, kinds] + 1.0, own)


@entry
def pool_shares(seed, chain, sweep, base, block_name, counts, tables, stopped, log_mass):
    """Draw what blocks say of the common shares and their pooling, given their counts (24).

    tables (K,): entities of each kind that were drawn from the common shares; log_mass (2,): sum
    of log w_b, w_b ~ Beta(pooling + 1, N_b); stopped (1,): sum of s_b ~ Bernoulli(N_b / (N_b +
    pooling)).
    """
    kinds, pooling = base.shape[0], base.sum()
    for block in range(counts.shape[0]):
        numbers = stream(seed, chain, sweep, block_name[block], POOL)
        entities = counts[block, kinds]
        if entities == 0:
            continue
        for kind in range(kinds):
            if counts[block, kind] > 0:
                tables[kind] += 1
            own = another(numbers, kind)
            for i in range(1, counts[block, kind], 2):
                one, two = words(own, i)
                tables[kind] += uniform(one) * (base[kind] + i) < base[kind]
                if i + 1 < counts[block, kind]:
                    tables[kind] += uniform(two) * (base[kind] + i + 1) < base[kind]
        left = log_gamma_variate(pooling + 1.0, another(numbers, LEFT))
        taken = log_gamma_variate(float(entities), another(numbers, ENTITIES))
        add_whole(left - log_add(left, taken), log_mass)
        coin = uniform(words(another(numbers, STOP), 0)[0])
        stopped[0] += coin * (entities + pooling) < entities


@entry
def weigh_shares(base, counts, log_weight):
    """Sum log of what the linkage of all blocks weighs, shares summed out (23)."""
    kinds, pooling = base.shape[0], base.sum()
    for block in range(counts.shape[0]):
        entities = counts[block, kinds]
        total = 0.0
        for kind in range(kinds):
            if counts[block, kind] > 0:
                total += math.lgamma(base[kind] + counts[block, kind]) - math.lgamma(base[kind])
        total += math.lgamma(entities + 1.0) + math.lgamma(pooling)
        add_whole(total - math.lgamma(pooling + entities), log_weight)
