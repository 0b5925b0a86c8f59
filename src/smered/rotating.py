"""Rotating blocks: exact blocks for data that have none (section 4 of docs/mathematics.md).

A sweep conditions on the true values of some fields. Entities that differ there cannot be one, so
records fall into blocks, small and independent, by the true values of their entities; the other
fields stay summed out. The next sweep takes other fields: no link is ruled out for good.
"""

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from smered.labels import Groups, share_over_blocks, share_over_groups
from smered.layout import (
    COIN_SIDES,
    BlockPrior,
    Floats,
    Int32s,
    Int64s,
    Layout,
    LinkagePrior,
    Parameters,
    Statistics,
)
from smered.model import Model
from smered.pairs import RotatingBlocks
from smered.state import ROTATING, SHARING, ChainState, generator

if TYPE_CHECKING:
    from smered.execute.serial import Serial

__all__ = ["Rotation", "choose_fields", "propose_rotated", "rotate", "rotating_sweep"]

LARGEST_KEY = 2**62
RECORDS_PER_GROUP, MOST_GROUPS = 256, 1024
STEP, MIX = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9)


class Rotation(NamedTuple):
    """One sweep's blocks, in groups that workers can share."""

    order: Int64s  # (n,) records of the usual layout in the order of the rotated one
    layout: Layout  # where proposals are still to be shared out
    parameters: Parameters  # of the fields that are not conditioned on
    log_true: Floats  # (B,) log probability of the true values that make a block
    row: Int64s  # (B,) the number of the usual block that each block is in
    group_sizes: Int64s  # (groups,) records
    linkable: int  # records of blocks of more than one
    largest: int  # records of the largest block


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
    for field in rng.permutation(np.flatnonzero(~model.changing)):
        if (chosen and sharing <= target) or len(chosen) == len(model.coded) - 1:
            break
        chosen.append(int(field))
        sharing *= agree[field]
    return np.array(sorted(chosen), np.int64)


def number_of_groups(records: int) -> int:
    """Into how many groups the blocks of so many records fall."""
    return min(max(records // RECORDS_PER_GROUP, 1), MOST_GROUPS)


def groups_of(blocks: Int64s, true: Int32s, groups: int) -> Int64s:
    """The group of each record, by a hash of its block's name and of its true values (n, c)."""
    if groups == 1:
        return np.zeros(len(blocks), np.int64)
    word: NDArray[np.uint64] = blocks.astype(np.uint64)
    for column in true.T:
        word = (word + STEP + column.astype(np.uint64)) * MIX
        word ^= word >> np.uint64(31)
    return (word % np.uint64(groups)).astype(np.int64)


def rotate(
    model: Model,
    layout: Layout,
    parameters: Parameters,
    fields: Int64s,
    true: Int32s,
    position: Int64s,
) -> Rotation:
    """Lay records out by the true values of some fields, true (n, c).

    A block's random numbers are named by the `position` of its first record among all records.
    """
    key = np.repeat(layout.block_name, np.diff(layout.block_start))
    groups = number_of_groups(model.size)
    group = groups_of(key, true, groups)
    span = int(key.max(initial=0)) + 1
    for column, field in enumerate(fields):
        levels = int(model.field_start[field + 1] - model.field_start[field])
        if span > LARGEST_KEY // levels:
            key = np.unique(key, return_inverse=True)[1]
            span = len(key)
        key = key * levels + (true[:, column] - model.field_start[field])
        span *= levels
    order = np.argsort(key, kind="stable")
    if groups > 1:
        order = order[np.argsort(group[order], kind="stable")]
    key, file = key[order], layout.cell_file[layout.cell][order]
    new_block = np.append(True, key[1:] != key[:-1])[: len(key)]
    new_cell = new_block | np.append(True, file[1:] != file[:-1])[: len(key)]
    block_start = np.append(np.flatnonzero(new_block), len(key))
    first, sizes = order[block_start[:-1]], np.diff(block_start)
    others = np.setdiff1d(np.arange(len(model.coded)), fields)
    rotated = layout._replace(
        values=layout.values[np.ix_(order, others)],
        exact=layout.exact[others],
        given=layout.given[others],
        changing=layout.changing[others],
        near=layout.near[others],
        sets=layout.sets[others],
        block_start=block_start,
        block_name=position[first],
        place=layout.place[order],
        cell=(np.cumsum(new_cell) - 1).astype(np.int32),
        cell_start=np.append(np.flatnonzero(new_cell), len(key)),
        cell_file=file[new_cell],
        uniform_share=COIN_SIDES,
    )
    return Rotation(
        order,
        rotated,
        parameters._replace(
            odds=np.ascontiguousarray(parameters.odds[:, others]),
            differ=parameters.differ[others],
            rate=parameters.rate[others],
            closeness=parameters.closeness[others],
            kept=np.ascontiguousarray(parameters.kept[:, :, others]),
        ),
        np.log(parameters.theta[true[first]]).sum(axis=1),
        layout.block_name[np.searchsorted(layout.block_start, first, side="right") - 1],
        np.bincount(group, minlength=groups),
        int(sizes[sizes > 1].sum()),
        int(sizes.max(initial=0)),
    )


def propose_rotated(
    execute: "Serial",
    rotation: Rotation,
    by_group: BlockPrior,
    proposals: int,
    linkable: int,
    state: ChainState,
    seed: int,
    chain: int,
    own: BlockPrior | None = None,
) -> Int64s:
    """Make a sweep's proposals within rotated blocks; return the counts of moves.

    `by_group` has the labels of every group; `proposals` are those of all records, of which so many
    are `linkable`. `own` has what the usual blocks drew for themselves.
    """
    start = rotation.layout.block_start
    sizes = np.diff(start)
    cuts = np.searchsorted(start, np.concatenate(([0], np.cumsum(rotation.group_sizes))))
    groups = Groups(rotation.group_sizes, 0, cuts, sizes, slice(None))
    prior = share_over_blocks(by_group, groups, seed, chain, state.sweep, SHARING)
    if own is not None:
        prior = prior._replace(
            log_unit=own.log_unit[rotation.row],
            log_share=own.log_share[rotation.row],
            base=own.base,
        )
    prior = prior._replace(log_unit=prior.log_unit + rotation.log_true)
    expected = np.where(sizes > 1, sizes, 0) * (proposals / max(linkable, 1))

    # records of a cluster keep their order, so that the one that names it stays the first
    order = rotation.order
    place = np.empty(len(order), np.int32)
    place[order] = np.arange(len(order), dtype=np.int32)
    rotated = replace(state, entity=place[state.entity[order]])
    usual = execute.layout
    execute.use(rotation.layout._replace(proposals=expected))
    moves = execute.propose(rotated, rotation.parameters, prior, seed, chain).moves
    state.entity[order] = order[rotated.entity]
    execute.use(usual)
    return moves


def rotating_sweep(
    execute: "Serial",
    model: Model,
    state: ChainState,
    parameters: Parameters,
    prior: LinkagePrior,
    seed: int,
    chain: int,
) -> Statistics:
    """Make one sweep's proposals within blocks of equal true values, then draw y and z."""
    layout = execute.layout
    fields = choose_fields(model, generator(seed, chain, state.sweep, ROTATING))
    true = execute.true_values(state, parameters, fields, seed, chain)
    position = np.arange(len(state.entity))
    rotation = rotate(model, layout, parameters, fields, true, position)
    log_kind = model.log_kind(prior.hyperparameters, rotation.largest)
    by_group = share_over_groups(
        prior, log_kind, rotation.group_sizes, seed, chain, state.sweep, SHARING
    )
    own = execute.block_prior(state, prior, seed, chain, SHARING) if len(prior.base) else None
    proposals = round(layout.proposals.sum())
    moves = propose_rotated(
        execute, rotation, by_group, proposals, rotation.linkable, state, seed, chain, own
    )
    return execute.count(state, parameters, seed, chain)._replace(moves=moves)
