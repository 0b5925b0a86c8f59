"""A sweep on the calling thread."""

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from smered.layout import (
    MOST_AGREED,
    BlockPrior,
    Bools,
    Clusters,
    Floats,
    Int32s,
    Int64s,
    Layout,
    Parameters,
    Scratch,
    Statistics,
    Toggles,
)
from smered.model import Model
from smered.state import ChainState

__all__ = ["Desk", "Serial"]

MOVE_COUNTS = 6  # merges, splits and transfers, proposed and accepted
SUMMED = 8  # the first arrays of Statistics are summed over threads, the others are shared


# first and last block, seed, chain, sweep, layout and parameters: what every kernel begins with
Place: TypeAlias = tuple[int, int, int, int, int, Layout, Parameters]


class Desk(NamedTuple):
    """What one thread works with: scratch room and its own counts."""

    scratch: Scratch
    statistics: Statistics


class Serial:
    """Runs sweeps over all blocks, one after the other.

    The contract of an executor: `sweep` updates the linkage of a state in place and returns the
    statistics of its y and z; `count` returns those of a given linkage, `latent` draws y and z
    themselves. All depend on the state, the parameters, the prior, the seed and the chain alone.
    """

    def __init__(self, model: Model, layout: Layout, workers: int = 1) -> None:
        n, blocks = len(layout.cell), len(layout.proposals)
        near_levels = np.diff(model.field_start)[model.near].max(initial=0)
        self.layout = layout
        self._touched = np.empty(n, np.uint8)
        self._rings = (np.empty(n, np.int32), np.empty(n, np.int32), np.empty(n, np.float64))
        block_entities, block_log_weight = np.zeros(blocks, np.int64), np.zeros(blocks)
        self._desks = [
            Desk(
                Scratch(
                    members=np.empty(model.largest_cluster, np.int32),
                    seen=np.empty(max(model.largest_cluster, near_levels), np.int32),
                    tally=np.zeros(len(model.mu)),
                    classes=np.zeros(model.classes),
                    mark=np.zeros(len(layout.single), np.int64),
                    stamp=np.zeros(1, np.int64),
                ),
                Statistics(
                    level_counts=np.zeros(len(model.mu), np.int64),
                    distorted=np.zeros(model.observed.shape, np.int64),
                    telling=np.zeros(model.observed.shape, np.int64),
                    slips=np.zeros(model.observed.shape, np.int64),
                    agreed=np.zeros((MOST_AGREED + 1, len(model.mu)), np.int64),
                    class_counts=np.zeros(model.classes, np.int64),
                    class_levels=np.zeros(model.class_shape, np.int64),
                    moves=np.zeros(MOVE_COUNTS, np.int64),
                    block_entities=block_entities,
                    block_log_weight=block_log_weight,
                ),
            )
            for _ in range(workers)
        ]

    def sweep(
        self, state: ChainState, parameters: Parameters, prior: BlockPrior, seed: int, chain: int
    ) -> Statistics:
        """Propose splits and merges in every block, then draw y and z."""
        from smered.kernels.sweep import count_blocks

        clusters = Clusters(state.entity, *self._rings)

        def work(desk: Desk, first: int, last: int) -> None:
            place = (first, last, seed, chain, state.sweep, self.layout, parameters)
            self._propose(place, prior, clusters, desk)
            count_blocks(*place, clusters, *desk)

        return self._run(work)

    def propose(
        self, state: ChainState, parameters: Parameters, prior: BlockPrior, seed: int, chain: int
    ) -> Statistics:
        """Propose splits and merges in every block, without drawing y and z."""
        clusters = Clusters(state.entity, *self._rings)

        def work(desk: Desk, first: int, last: int) -> None:
            place = (first, last, seed, chain, state.sweep, self.layout, parameters)
            self._propose(place, prior, clusters, desk)

        return self._run(work)

    def count(self, state: ChainState, parameters: Parameters, seed: int, chain: int) -> Statistics:
        """Count y and z of the linkage as it is."""
        from smered.kernels.sweep import count_blocks

        clusters = Clusters(state.entity, *self._rings)

        def work(desk: Desk, first: int, last: int) -> None:
            place = (first, last, seed, chain, state.sweep, self.layout, parameters)
            count_blocks(*place, clusters, *desk)

        return self._run(work)

    def latent(
        self, state: ChainState, parameters: Parameters, seed: int, chain: int
    ) -> tuple[Int32s, Int32s]:
        """Draw y and z of every record and field (n, p), kernel order; -1 where there is none."""
        from smered.kernels.sweep import latent_blocks

        clusters = Clusters(state.entity, *self._rings)
        true, distorted = np.empty_like(self.layout.values), np.empty_like(self.layout.values)

        def work(desk: Desk, first: int, last: int) -> None:
            place = (first, last, seed, chain, state.sweep, self.layout, parameters)
            latent_blocks(*place, clusters, desk.scratch, true, distorted)

        self._over_blocks(work)
        return true, distorted

    def true_values(
        self, state: ChainState, parameters: Parameters, fields: Int64s, seed: int, chain: int
    ) -> Int32s:
        """Draw y of some fields at every record (n, fields), for use before a sweep's proposals."""
        from smered.kernels.sweep import chosen_blocks

        clusters = Clusters(state.entity, *self._rings)
        true = np.empty((len(state.entity), len(fields)), np.int32)

        def work(desk: Desk, first: int, last: int) -> None:
            place = (first, last, seed, chain, state.sweep, fields, self.layout, parameters)
            chosen_blocks(*place, clusters, desk.scratch, true)

        self._over_blocks(work)
        return true

    def evenness(
        self, state: ChainState, parameters: Parameters, prior: BlockPrior
    ) -> NDArray[np.float32]:
        """How even the odds of every candidate are in this state, from 0 to 1."""
        from smered.kernels.tuning import measure_evenness

        clusters = Clusters(state.entity, *self._rings)
        found = np.zeros(len(self.layout.candidates), np.float32)

        def work(desk: Desk, first: int, last: int) -> None:
            measure_evenness(
                first, last, self.layout, parameters, prior, clusters, desk.scratch, found
            )

        self._over_blocks(work)
        return found

    def toggles(
        self,
        state: ChainState,
        parameters: Parameters,
        log_size: Floats,
        pairs: Toggles,
        field: int,
        rates: Floats,
        seed: int,
        chain: int,
    ) -> tuple[Int64s, Floats]:
        """Find which pairs are toggles now, and weigh all other clusters in the field.

        Returns how many of them agree, by number of values and level, and the log weights of the
        rest at each of the rates, summed.
        """
        from smered.kernels.toggles import find_toggles

        clusters = Clusters(state.entity, *self._rings)
        others = np.zeros((len(self.layout.proposals), len(rates)))

        def work(desk: Desk, first: int, last: int) -> None:
            find_toggles(
                first, last, seed, chain, state.sweep, field, rates, self.layout, parameters,
                log_size, clusters, self._touched, *desk, pairs, others,
            )  # fmt: skip

        return self._run(work).agreed, others.sum(axis=0)

    def set_toggles(self, state: ChainState, pairs: Toggles, wanted: Bools) -> None:
        """Set toggles that were just found."""
        from smered.kernels.toggles import set_toggles

        clusters = Clusters(state.entity, *self._rings)

        def work(desk: Desk, first: int, last: int) -> None:
            set_toggles(first, last, self.layout, clusters, desk.scratch, pairs, wanted)

        self._over_blocks(work)

    def use(self, layout: Layout) -> None:
        """Go on with another layout of the same records."""
        blocks = len(layout.proposals)
        if blocks != len(self.layout.proposals):
            entities, log_weight = np.zeros(blocks, np.int64), np.zeros(blocks)
            self._desks = [
                desk._replace(
                    statistics=desk.statistics._replace(
                        block_entities=entities, block_log_weight=log_weight
                    )
                )
                for desk in self._desks
            ]
        self.layout = layout

    def close(self) -> None:
        """Release threads, where there are any."""

    def _propose(self, place: Place, prior: BlockPrior, clusters: Clusters, desk: Desk) -> None:
        from smered.kernels.moves import propose_blocks
        from smered.kernels.sweep import weigh_blocks

        first, last, seed, chain, sweep, layout, parameters = place
        weigh_blocks(first, last, layout, parameters, clusters, desk.scratch)
        propose_blocks(first, last, seed, chain, sweep, layout, parameters, prior, clusters, *desk)

    def _run(self, work: Callable[[Desk, int, int], None]) -> Statistics:
        for desk in self._desks:
            for counts in desk.statistics[:SUMMED]:
                counts.fill(0)
        self._over_blocks(work)
        each = [desk.statistics for desk in self._desks]
        parts = zip(*(counts[:SUMMED] for counts in each), strict=True)
        return Statistics(*(np.sum(part, axis=0) for part in parts), *each[0][SUMMED:])

    def _over_blocks(self, work: Callable[[Desk, int, int], None]) -> None:
        work(self._desks[0], 0, len(self.layout.proposals))
