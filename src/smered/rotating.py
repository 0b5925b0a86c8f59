"""Rotating blocks: exact blocks for data that have none (section 4 of docs/mathematics.md).

A sweep conditions on the true values of some fields. Entities that differ there cannot be one, so
records fall into blocks, small and independent, by the true values of their entities; the other
fields stay summed out. The next sweep takes other fields: no link is ruled out for good.
"""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from smered.execute.serial import Serial
from smered.layout import (
    COIN_SIDES,
    BlockPrior,
    Floats,
    Int32s,
    Int64s,
    Layout,
    Parameters,
    Statistics,
)
from smered.model import Model
from smered.pairs import RotatingBlocks
from smered.state import ChainState

__all__ = ["rotating_sweep"]

LARGEST_KEY = 2**62


class Rotation(NamedTuple):
    """One sweep's blocks."""

    order: Int64s  # (n,) records of the usual layout in the order of the rotated one
    layout: Layout
    parameters: Parameters  # of the fields that are not conditioned on
    log_true: Floats  # (B,) log probability of the true values that make a block


def choose_fields(model: Model, rng: np.random.Generator) -> Int64s:
    """The fields to condition on: at least one, and never all."""
    pairs = model.pairs
    assert isinstance(pairs, RotatingBlocks)
    low, high = np.log(pairs.smallest), np.log(pairs.largest)
    target = np.exp(low + (high - low) * rng.random())
    shown = np.add.reduceat(model.shown, model.field_start[:-1])
    share = model.shown / np.repeat(np.maximum(shown, 1), np.diff(model.field_start))
    agree = np.add.reduceat(share**2, model.field_start[:-1])  # chance that two records do
    sharing = float((model.block_sizes.astype(np.float64) ** 2).sum() / model.block_sizes.sum())
    chosen: list[int] = []
    for field in rng.permutation(len(model.coded)):
        if (chosen and sharing <= target) or len(chosen) == len(model.coded) - 1:
            break
        chosen.append(int(field))
        sharing *= agree[field]
    return np.array(sorted(chosen), np.int64)


def rotate(
    model: Model, layout: Layout, parameters: Parameters, fields: Int64s, true: Int32s
) -> Rotation:
    """Lay the records out by the true values of some fields, true (n, fields)."""
    blocks = len(layout.block_start) - 1
    key = np.repeat(np.arange(blocks), np.diff(layout.block_start))
    span = blocks
    for column, field in enumerate(fields):
        levels = int(model.field_start[field + 1] - model.field_start[field])
        if span > LARGEST_KEY // levels:
            key = np.unique(key, return_inverse=True)[1]
            span = len(key)
        key = key * levels + (true[:, column] - model.field_start[field])
        span *= levels
    order = np.argsort(key, kind="stable")
    key, file = key[order], layout.cell_file[layout.cell][order]
    new_block = np.append(True, key[1:] != key[:-1])
    new_cell = new_block | np.append(True, file[1:] != file[:-1])
    block_start = np.append(np.flatnonzero(new_block), len(key))
    sizes = np.diff(block_start)
    others = np.setdiff1d(np.arange(len(model.coded)), fields)
    linkable = np.where(sizes > 1, sizes, 0)
    rotated = layout._replace(
        values=layout.values[np.ix_(order, others)],
        exact=layout.exact[others],
        near=layout.near[others],
        block_start=block_start,
        block_name=np.arange(len(sizes)),
        place=layout.place[order],
        cell=(np.cumsum(new_cell) - 1).astype(np.int32),
        cell_start=np.append(np.flatnonzero(new_cell), len(key)),
        cell_file=file[new_cell],
        proposals=linkable * (layout.proposals.sum() / max(linkable.sum(), 1)),
        uniform_share=COIN_SIDES,
    )
    first = order[block_start[:-1]]
    return Rotation(
        order,
        rotated,
        parameters._replace(
            odds=np.ascontiguousarray(parameters.odds[:, others]),
            differ=parameters.differ[others],
            rate=parameters.rate[others],
            closeness=parameters.closeness[others],
        ),
        np.log(parameters.theta[true[first]]).sum(axis=1),
    )


def rotating_sweep(
    state: ChainState,
    model: Model,
    parameters: Parameters,
    execute: Serial,
    seed: int,
    chain: int,
    rng: np.random.Generator,
) -> Statistics:
    """Make one sweep's proposals within blocks of equal true values, then draw y and z."""
    usual = execute.layout
    fields = choose_fields(model, rng)
    true = execute.true_values(state, parameters, fields, seed, chain)
    rotation = rotate(model, usual, parameters, fields, true)
    log_unit, free = model.partition_prior.condition(
        state.hyperparameters, state.entities, np.diff(rotation.layout.block_start), rng
    )
    log_size = model.partition_prior.log_size(model.largest_cluster, state.hyperparameters)
    prior = BlockPrior(log_unit + rotation.log_true, free, log_size)

    # records of a cluster keep their order, so that the one that names it stays the first
    order = rotation.order
    position = np.empty(len(order), np.int32)
    position[order] = np.arange(len(order), dtype=np.int32)
    rotated = replace(state, entity=position[state.entity[order]])
    execute.use(rotation.layout)
    moves = execute.propose(rotated, rotation.parameters, prior, seed, chain).moves
    state.entity[order] = order[rotated.entity]

    execute.use(usual._replace(proposals=np.zeros_like(usual.proposals)))
    statistics = execute.sweep(state, parameters, prior, seed, chain)
    execute.use(usual)
    return statistics._replace(moves=moves)
