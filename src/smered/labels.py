"""Free labels, shared out over groups of blocks and then over the blocks of each (equation 8).

Each free label goes to a group, and within it to a block, with a probability proportional to the
records there. Groups depend on the records alone. Whoever holds some blocks can find their labels
without knowing others than those of the same groups.
"""

from typing import NamedTuple

import numpy as np

from smered.layout import BlockPrior, Floats, Int64s, LinkagePrior
from smered.parts import cut_records
from smered.state import generator

NO_SHARES = np.zeros((1, 1))  # of kinds, where blocks have none of their own

__all__ = ["Groups", "share_over_blocks", "share_over_groups"]


class Groups(NamedTuple):
    """Groups of neighbouring blocks: the size of each, and the blocks of some of them."""

    sizes: Int64s  # (groups,) records of every group
    first: int  # number of the first group whose blocks are here
    cuts: Int64s  # where the groups here begin among these blocks, and where the last one ends
    block_sizes: Int64s  # records of these blocks
    own: slice  # those of these blocks that are wanted

    @classmethod
    def of(cls, block_sizes: Int64s, first: int = 0, last: int | None = None) -> "Groups":
        """The groups of all blocks, and those that hold the blocks first..last-1."""
        last = len(block_sizes) if last is None else last
        records = np.concatenate(([0], np.cumsum(block_sizes)))
        cuts = np.searchsorted(records, cut_records(block_sizes))
        low = int(np.searchsorted(cuts, first, side="right")) - 1
        high = int(np.searchsorted(cuts, last))
        start, end = cuts[low], cuts[high]
        return cls(
            sizes=np.diff(records[cuts]),
            first=low,
            cuts=cuts[low : high + 1] - start,
            block_sizes=block_sizes[start:end],
            own=slice(first - start, last - start),
        )


def share_over_groups(
    prior: LinkagePrior, log_kind: Floats, sizes: Int64s, seed: int, chain: int, sweep: int,
    when: int,
) -> BlockPrior:  # fmt: skip
    """Share labels out over groups of so many records; `log_kind` is log W of every kind."""
    rng = generator(seed, chain, sweep, when)
    labels = share(prior.log_unit, prior.free, sizes, rng)
    shares = prior.log_share[None] if len(prior.log_share) else NO_SHARES
    return BlockPrior(*labels, log_kind, shares, prior.base)


def share_over_blocks(
    prior: BlockPrior, groups: Groups, seed: int, chain: int, sweep: int, when: int
) -> BlockPrior:
    """Share the labels of all groups out over the blocks that are wanted."""
    log_unit = np.empty(len(groups.block_sizes))
    free = np.empty(len(groups.block_sizes), np.int64)
    for here in range(len(groups.cuts) - 1):
        group, blocks = groups.first + here, slice(*groups.cuts[here : here + 2])
        if blocks.start < blocks.stop:
            rng = generator(seed, chain, sweep, when, group + 1)
            log_unit[blocks], free[blocks] = share(
                float(prior.log_unit[group]),
                int(prior.free[group]),
                groups.block_sizes[blocks],
                rng,
            )
    return prior._replace(log_unit=log_unit[groups.own], free=free[groups.own])


def share(
    log_unit: float, free: int, sizes: Int64s, rng: np.random.Generator
) -> tuple[Floats, Int64s]:
    """Give each of some labels to one of several places, of so many records, in proportion."""
    if free < 0:
        return np.full(len(sizes), log_unit), np.full(len(sizes), free, np.int64)
    chance = sizes / max(sizes.sum(), 1)
    active = sizes > 1  # a place of one record never uses a label: all these share one draw
    rest = 1.0 - chance[active].sum()
    drawn = rng.multinomial(free, np.append(chance[active], max(rest, 0.0)))
    found = np.zeros(len(sizes), np.int64)
    found[active] = drawn[:-1]
    with np.errstate(divide="ignore"):  # a group may be empty
        return log_unit - np.log(chance), found
