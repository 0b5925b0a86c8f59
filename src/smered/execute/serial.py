"""A sweep on the calling thread."""

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from smered.doubtful import find_doubtful, no_toggles
from smered.errors import RunError
from smered.execute import blocks
from smered.execute.contract import FoundToggles
from smered.labels import Groups, share_over_blocks, share_over_groups
from smered.layout import (
    MOST_AGREED,
    BlockPrior,
    Clusters,
    Floats,
    Int32s,
    Int64s,
    Layout,
    LinkagePrior,
    Parameters,
    Scratch,
    Statistics,
    Toggles,
)
from smered.model import Model
from smered.priors.prior import KindCounts, Pooled
from smered.rotating import rotating_sweep
from smered.state import (
    SHARING,
    SHARING_GRADES,
    SHARING_JOINTLY,
    ChainState,
    start_linkage,
)
from smered.sums import add_up
from smered.tuning import (
    Totals,
    count_totals,
    grade_candidates,
    with_grades,
    without_idle,
)

__all__ = ["Desk", "Serial"]

MOVE_COUNTS = 6  # merges, splits and transfers, proposed and accepted


# first and last block, seed, chain, sweep, layout and parameters: what every kernel begins with
Place: TypeAlias = tuple[int, int, int, int, int, Layout, Parameters]


class Desk(NamedTuple):
    """What one thread works with: scratch room and its own counts."""

    scratch: Scratch
    statistics: Statistics


class Serial:
    """Runs sweeps over all blocks, one after the other; see `Executor`.

    `groups` are those that labels are shared out over (default: those of the model's blocks).
    Besides what a chain asks, `latent` draws y and z themselves; `true_values`, `propose` and `use`
    serve rotating blocks.
    """

    def __init__(
        self, model: Model, layout: Layout, workers: int = 1, groups: Groups | None = None
    ) -> None:
        prior = model.partition_prior
        base = prior.base(prior.start(model.size))
        near_levels = np.diff(model.field_start)[model.near].max(initial=0)
        self.layout = layout
        self._make_room(len(layout.cell))
        self.groups = Groups.of(model.block_sizes) if groups is None else groups
        self.before = 0  # records that stand before those of the layout
        self._model = model
        self._doubtful: dict[int, Toggles] = {}
        self._desks = [
            Desk(
                Scratch(
                    members=np.empty(model.largest_cluster, np.int32),
                    seen=np.empty(max(model.largest_cluster, near_levels), np.int32),
                    tally=np.zeros(len(model.mu)),
                    classes=np.zeros(model.classes),
                    mark=np.zeros(len(layout.single), np.int64),
                    stamp=np.zeros(1, np.int64),
                    ordered=np.empty(model.largest_cluster, np.int32),
                    edge=np.zeros(len(layout.single) + 1, np.int64),
                    reach=np.zeros(len(layout.single) + 1),
                    cut=np.zeros(len(layout.single) + 1, np.bool_),
                    kinds=np.zeros(len(base) + 1, np.int64),
                ),
                Statistics(
                    level_counts=np.zeros(len(model.mu), np.int64),
                    distorted=np.zeros(model.observed.shape, np.int64),
                    telling=np.zeros(model.observed.shape, np.int64),
                    slips=np.zeros(model.observed.shape, np.int64),
                    agreed=np.zeros((MOST_AGREED + 1, len(model.mu)), np.int64),
                    changed=np.zeros(model.change_shape, np.int64),
                    exposed=np.zeros(model.change_shape, np.int64),
                    class_counts=np.zeros(model.classes, np.int64),
                    class_levels=np.zeros(model.class_shape, np.int64),
                    moves=np.zeros(MOVE_COUNTS, np.int64),
                    entities=np.zeros(1, np.int64),
                    log_weight=np.zeros(2, np.int64),
                ),
            )
            for _ in range(workers)
        ]

    @property
    def candidates(self) -> bool:
        """Whether there are pairs that are proposed more often than others."""
        return len(self.layout.candidates) > 0

    @property
    def uniform_share(self) -> int:
        """Of COIN_SIDES, how often a pair is uniform."""
        return self.layout.uniform_share

    def start(self, state: ChainState, seed: int, chain: int) -> None:
        """Link records for the first time."""
        state.entity = start_linkage(self._model, self.layout, chain, seed, self.before)
        state.entities = int((state.entity == np.arange(len(state.entity))).sum())

    def kinds(self, state: ChainState) -> KindCounts:
        """Clusters of each kind."""
        layout, prior = self.layout, self._model.partition_prior
        shares = len(prior.base(prior.start(1))) or len(prior.log_share(prior.start(1)))
        by_share = np.zeros(shares, np.int64)
        if not layout.kind_bits:
            sizes = np.bincount(np.bincount(state.entity), minlength=2)
            sizes[0] = 0  # records that name no cluster
            share = np.minimum(np.arange(1, len(sizes)), max(shares, 1)) - 1
            if shares:
                np.add.at(by_share, share, sizes[1:])
            return KindCounts(by_share, sizes[None])
        file, files = layout.cell_file[layout.cell], len(layout.single)
        held = np.zeros((files, len(state.entity)), np.int64)
        for number in range(files):
            own = file == number
            held[number] = np.bincount(state.entity[own], minlength=len(state.entity))
        most = int(held.max(initial=0))
        numbers = np.stack([np.bincount(row, minlength=most + 2) for row in held])
        numbers[:, 0] = 0
        pattern = (1 << np.arange(files)) @ (held > 0)
        by_share += np.bincount(pattern, minlength=shares + 1)[1:]
        return KindCounts(by_share, numbers)

    def block_counts(self, state: ChainState, shares: int) -> Int64s:
        """Clusters of each block by the share of their kind, and all of them (B, K + 1)."""
        from smered.kernels.shares import count_shares

        clusters = Clusters(state.entity, *self._rings)
        counts = np.zeros((len(self.layout.proposals), shares + 1), np.int64)

        def work(desk: Desk, first: int, last: int) -> None:
            count_shares(first, last, self.layout, clusters, counts)

        self._over_blocks(work)
        return counts

    def pool(self, state: ChainState, base: Floats, seed: int, chain: int) -> Pooled:
        """Draw what blocks with shares of their own say of the common ones."""
        counts = self.block_counts(state, len(base))
        return blocks.pool(base, self.layout.block_name, counts, seed, chain, state.sweep)

    def weigh_shares(self, state: ChainState, base: Floats) -> Int64s:
        """Sum what blocks with shares of their own weigh, in logs (2,); see `smered.sums`."""
        return blocks.weigh(base, self.block_counts(state, len(base)))

    def sweep(
        self, state: ChainState, parameters: Parameters, prior: LinkagePrior, seed: int, chain: int
    ) -> Statistics:
        """Propose splits and merges in every block, then draw y and z."""
        if self._model.rotates:
            return rotating_sweep(self, self._model, state, parameters, prior, seed, chain)
        by_group = self.by_group(prior, seed, chain, state.sweep, SHARING)
        return self.sweep_groups(state, parameters, by_group, seed, chain)

    def sweep_groups(
        self, state: ChainState, parameters: Parameters, by_group: BlockPrior, seed: int, chain: int
    ) -> Statistics:
        """A sweep, given the labels of each group."""
        from smered.kernels.sweep import count_blocks

        prior = self.by_block(state, by_group, seed, chain, SHARING)
        clusters = Clusters(state.entity, *self._rings)

        def work(desk: Desk, first: int, last: int) -> None:
            place = (first, last, seed, chain, state.sweep, self.layout, parameters)
            self._propose(place, prior, clusters, desk)
            count_blocks(*place, clusters, *desk)

        return self._run(work)

    def by_group(
        self, prior: LinkagePrior, seed: int, chain: int, sweep: int, when: int
    ) -> BlockPrior:
        """Share labels out over groups of blocks."""
        log_kind = self._model.log_kind(prior.hyperparameters)
        return share_over_groups(prior, log_kind, self.groups.sizes, seed, chain, sweep, when)

    def by_block(
        self, state: ChainState, by_group: BlockPrior, seed: int, chain: int, when: int
    ) -> BlockPrior:
        """Share the labels of each group out over its blocks; let blocks draw their own shares.

        Proposals of a sweep sum these out, unless blocks rotate.
        """
        prior = share_over_blocks(by_group, self.groups, seed, chain, state.sweep, when)
        if not len(prior.base) or (when == SHARING and not self._model.rotates):
            return prior
        counts = self.block_counts(state, len(prior.base))
        names = self.layout.block_name
        return blocks.draw_own(prior, names, counts, seed, chain, state.sweep, when)

    def block_prior(
        self, state: ChainState, prior: LinkagePrior, seed: int, chain: int, when: int
    ) -> BlockPrior:
        """What makes every block independent."""
        by_group = self.by_group(prior, seed, chain, state.sweep, when)
        return self.by_block(state, by_group, seed, chain, when)

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
        """Count y and z of the linkage as it is, and weigh it."""
        from smered.kernels.sweep import count_blocks, weigh_blocks

        clusters = Clusters(state.entity, *self._rings)

        def work(desk: Desk, first: int, last: int) -> None:
            place = (first, last, seed, chain, state.sweep, self.layout, parameters)
            weigh_blocks(first, last, self.layout, parameters, clusters, desk.scratch)
            count_blocks(*place, clusters, *desk)

        return self._run(work)

    def weigh_field(self, state: ChainState, parameters: Parameters, field: int) -> Int64s:
        """Sum the log weights of all clusters in one field (2,); see `smered.sums`."""
        from smered.kernels.sweep import weigh_field

        clusters = Clusters(state.entity, *self._rings)
        found = {id(desk): np.zeros(2, np.int64) for desk in self._desks}

        def work(desk: Desk, first: int, last: int) -> None:
            scratch, total = desk.scratch, found[id(desk)]
            weigh_field(first, last, field, self.layout, parameters, clusters, scratch, total)

        self._over_blocks(work)
        return np.sum(list(found.values()), axis=0)

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

    def grade(
        self,
        state: ChainState,
        parameters: Parameters,
        prior: LinkagePrior,
        before: int,
        seed: int,
        chain: int,
    ) -> None:
        """Grade candidates by the state as it is, and by so many states before it."""
        by_group = self.by_group(prior, seed, chain, state.sweep, SHARING_GRADES)
        self.grade_groups(state, parameters, by_group, before, seed, chain)

    def grade_groups(
        self,
        state: ChainState,
        parameters: Parameters,
        by_group: BlockPrior,
        before: int,
        seed: int,
        chain: int,
    ) -> None:
        """Grade candidates, given the labels of each group."""
        prior = self.by_block(state, by_group, seed, chain, SHARING_GRADES)
        evenness = self.evenness(state, parameters, prior)
        state.grade = grade_candidates(evenness, state.grade, before)

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

    def tune(self, state: ChainState, informed: float, uniform: float) -> None:
        """Go on with so many proposals by the grades of candidates, and so many uniform ones."""
        self.finish_tuning(self.begin_tuning(state), informed, uniform)

    def begin_tuning(self, state: ChainState) -> Totals:
        """Leave idle candidates out, and count what shares of proposals depend on."""
        if len(state.grade) != len(self.layout.candidates):
            raise RunError("the checkpoint is damaged: it grades other candidates than there are")
        layout, grade = without_idle(self.layout, state.grade)
        self.layout = layout._replace(grade=grade)
        return count_totals(self.layout, grade)

    def finish_tuning(self, totals: Totals, informed: float, uniform: float) -> None:
        """Share proposals out, given the counts of all records."""
        self.use(with_grades(self.layout, self.layout.grade, informed, uniform, totals))

    def find_doubtful(self, fields: Sequence[int]) -> dict[int, int]:
        """Find what may be toggles of each field; return how doubtful they are."""
        found = find_doubtful(self.layout, fields)
        self._doubtful = {field: pairs for field, (pairs, _) in found.items()}
        return {field: doubt for field, (_, doubt) in found.items()}

    def find_toggles(
        self,
        state: ChainState,
        parameters: Parameters,
        prior: LinkagePrior,
        field: int,
        rates: Floats,
        seed: int,
        chain: int,
    ) -> FoundToggles:
        """Find which doubtful pairs are toggles now, and weigh all other clusters in the field."""
        by_group = self.by_group(prior, seed, chain, state.sweep, SHARING_JOINTLY)
        return self.find_toggles_in(state, parameters, by_group, field, rates, seed, chain)

    def find_toggles_in(
        self,
        state: ChainState,
        parameters: Parameters,
        by_group: BlockPrior,
        field: int,
        rates: Floats,
        seed: int,
        chain: int,
    ) -> FoundToggles:
        """The same, given the labels of each group."""
        from smered.kernels.toggles import find_toggles

        prior = self.by_block(state, by_group, seed, chain, SHARING_JOINTLY)
        pairs = self._toggles(field)
        clusters = Clusters(state.entity, *self._rings)
        others = np.zeros((len(self.layout.proposals), len(rates)))
        levels = int(np.diff(self.layout.field_start)[field])
        hosts = {id(desk): np.zeros((MOST_AGREED + 1, levels), np.int64) for desk in self._desks}

        def work(desk: Desk, first: int, last: int) -> None:
            find_toggles(
                first, last, seed, chain, state.sweep, field, rates, self.layout, parameters,
                prior, clusters, self._touched, *desk, pairs, hosts[id(desk)], others,
            )  # fmt: skip

        agreed = self._run(work).agreed
        together = int(pairs.together[pairs.shown > 0].sum())
        return FoundToggles(agreed, np.sum(list(hosts.values()), axis=0), together, add_up(others))

    def weigh_toggles(self, field: int, kinds: Int32s, log_odds: Floats) -> Int64s:
        """Sum log(1 + odds) of the toggles just found, at each rate (2, rates)."""
        from smered.kernels.toggles import weigh_toggles

        pairs = self._toggles(field)
        sums = np.zeros((len(self.layout.proposals), len(log_odds)))

        # so short that sharing it out over threads takes longer; so are the next two
        weigh_toggles(0, len(sums), field, self.layout, kinds, log_odds, pairs, sums)
        return add_up(sums)

    def draw_toggles(
        self, state: ChainState, field: int, kinds: Int32s, log_odds: Floats, seed: int, chain: int
    ) -> int:
        """Draw how the toggles just found shall stand; return how many shall be together."""
        from smered.kernels.toggles import draw_toggles

        pairs, blocks = self._toggles(field), len(self.layout.proposals)
        draw_toggles(
            0, blocks, seed, chain, state.sweep, field, self.layout, kinds, log_odds, pairs
        )
        return int(pairs.wanted[pairs.shown > 0].sum())

    def set_toggles(self, state: ChainState, field: int) -> None:
        """Set the toggles as they were just drawn."""
        from smered.kernels.toggles import set_toggles

        pairs, blocks = self._toggles(field), len(self.layout.proposals)
        clusters = Clusters(state.entity, *self._rings)
        set_toggles(0, blocks, self.layout, clusters, self._desks[0].scratch, pairs)

    def _toggles(self, field: int) -> Toggles:
        """The doubtful pairs of a field; none where all records agree."""
        return self._doubtful.get(field) or no_toggles(len(self.layout.proposals))

    def use(self, layout: Layout) -> None:
        """Go on with another layout, of the same records or of others."""
        if len(layout.cell) != len(self.layout.cell):
            self._make_room(len(layout.cell))
        self.layout = layout

    def _make_room(self, records: int) -> None:
        """Room for what is known of so many records and their clusters."""
        self._touched = np.empty(records, np.uint8)
        self._rings = (
            np.empty(records, np.int32), np.empty(records, np.int32), np.empty(records, np.int64),
            np.empty(records),
        )  # fmt: skip

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
            for counts in desk.statistics:
                counts.fill(0)
        self._over_blocks(work)
        parts = zip(*(desk.statistics for desk in self._desks), strict=True)
        return Statistics(*(np.sum(part, axis=0) for part in parts))

    def _over_blocks(self, work: Callable[[Desk, int, int], None]) -> None:
        work(self._desks[0], 0, len(self.layout.proposals))
