"""The executors of one chain whose records are held by workers."""

import operator
from collections.abc import Mapping, Sequence
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np

from smered.execute import blocks
from smered.execute.contract import FoundToggles
from smered.labels import NO_SHARES, share_over_groups
from smered.layout import BlockPrior, Floats, Int32s, Int64s, LinkagePrior, Parameters, Statistics
from smered.model import Model
from smered.priors.prior import KindCounts, Pooled
from smered.rotating import choose_fields
from smered.state import (
    ROTATING,
    SHARING,
    SHARING_GRADES,
    SHARING_JOINTLY,
    ChainState,
    generator,
)
from smered.store.parts import Receipts, Span
from smered.store.schema import Receipt
from smered.tuning import add_totals

__all__ = ["OnRay", "RemoteLinkage", "RotatingOnRay"]


class OnRay:
    """Does what `Serial` does, by asking workers and adding up their whole numbers.

    The linkage of a state stays with the workers: here `entity` and `grade` are empty.
    """

    def __init__(
        self,
        workers: Sequence[Any],
        model: Model,
        groups: Int64s,
        candidates: bool,
        uniform_share: int,
    ) -> None:
        """Take workers, and the sizes of the groups that labels are shared out over."""
        self.candidates, self.uniform_share = candidates, uniform_share
        self._model = model
        self._workers = list(workers)
        self._groups = groups

    def start(self, state: ChainState, seed: int, chain: int) -> None:
        """Link records for the first time."""
        state.entities = sum(self.ask("start", seed))

    def kinds(self, state: ChainState) -> KindCounts:
        """Clusters of each kind."""
        parts: list[KindCounts] = self._run("kinds", state)
        return reduce(operator.add, parts)

    def pool(self, state: ChainState, base: Floats, seed: int, chain: int) -> Pooled:
        """Draw what blocks with shares of their own say of the common ones."""
        parts = self._run("pool", state, base, seed, chain)
        return Pooled(*(np.sum(each, axis=0) for each in zip(*parts, strict=True)))

    def weigh_shares(self, state: ChainState, base: Floats) -> Int64s:
        """Sum what blocks with shares of their own weigh, in logs (2,); see `smered.sums`."""
        return np.sum(self._run("weigh_shares", state, base), axis=0)

    def sweep(
        self, state: ChainState, parameters: Parameters, prior: LinkagePrior, seed: int, chain: int
    ) -> Statistics:
        """Propose splits and merges in every block, then draw y and z."""
        by_group = self._share(prior, seed, chain, state.sweep, SHARING)
        return add_up(self._run("sweep_groups", state, parameters, by_group, seed, chain))

    def count(self, state: ChainState, parameters: Parameters, seed: int, chain: int) -> Statistics:
        """Count y and z of the linkage as it is."""
        return add_up(self._run("count", state, parameters, seed, chain))

    def weigh_field(self, state: ChainState, parameters: Parameters, field: int) -> Int64s:
        """Sum the log weights of all clusters in one field (2,); see `smered.sums`."""
        return np.sum(self._run("weigh_field", state, parameters, field), axis=0)

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
        by_group = self._share(prior, seed, chain, state.sweep, SHARING_GRADES)
        self._run("grade_groups", state, parameters, by_group, before, seed, chain)

    def _share(
        self, prior: LinkagePrior, seed: int, chain: int, sweep: int, when: int
    ) -> BlockPrior:
        log_kind = self._model.log_kind(prior.hyperparameters)
        return share_over_groups(prior, log_kind, self._groups, seed, chain, sweep, when)

    def tune(self, state: ChainState, informed: float, uniform: float) -> None:
        """Go on with so many proposals by the grades of candidates, and so many uniform ones."""
        totals = add_totals(self._run("begin_tuning", state))
        self.ask("do", "finish_tuning", totals, informed, uniform)

    def find_doubtful(self, fields: Sequence[int]) -> dict[int, int]:
        """Find what may be toggles of each field; return how doubtful they are."""
        parts = self.ask("do", "find_doubtful", fields)
        found = {field for part in parts for field in part}
        return {field: sum(part.get(field, 0) for part in parts) for field in sorted(found)}

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
        by_group = self._share(prior, seed, chain, state.sweep, SHARING_JOINTLY)
        arguments = (parameters, by_group, field, rates, seed, chain)
        parts = self._run("find_toggles_in", state, *arguments)
        return FoundToggles(*(sum(each) for each in zip(*parts, strict=True)))

    def weigh_toggles(self, field: int, kinds: Int32s, log_odds: Floats) -> Int64s:
        """Sum log(1 + odds) of the toggles just found, at each rate (2, rates)."""
        return np.sum(self.ask("do", "weigh_toggles", field, kinds, log_odds), axis=0)

    def draw_toggles(
        self, state: ChainState, field: int, kinds: Int32s, log_odds: Floats, seed: int, chain: int
    ) -> int:
        """Draw how the toggles just found shall stand; return how many shall be together."""
        return sum(self._run("draw_toggles", state, field, kinds, log_odds, seed, chain))

    def set_toggles(self, state: ChainState, field: int) -> None:
        """Set the toggles as they were just drawn."""
        self._run("set_toggles", state, field)

    def close(self) -> None:
        """End the workers."""
        import ray

        for worker in self._workers:
            ray.kill(worker)

    def ask(self, method: str, *arguments: Any) -> list[Any]:
        """Ask every worker the same."""
        import ray

        shared = [ray.put(value) if is_large(value) else value for value in arguments]
        asked = [getattr(worker, method).remote(*shared) for worker in self._workers]
        return list(ray.get(asked))

    def _run(self, method: str, state: ChainState, *arguments: Any) -> list[Any]:
        return self.ask("run", method, state.sweep, *arguments)

    def follow(self, draw: int) -> None:
        """Take the linkage of a draw."""
        self.ask("follow", draw)

    def write(self, span: Span) -> list[Receipts]:
        """Write the linkage up to the end of a span."""
        return self.ask("write", span)

    def read(self, span: Span, receipts: Mapping[str, Receipt]) -> int:
        """Take the linkage up where a span left it; return the number of entities."""
        return sum(self.ask("read", span, receipts))


class RotatingOnRay(OnRay):
    """The same for rotating blocks, for which records move between workers; see `.rotating`."""

    def __init__(self, workers: Sequence[Any], model: Model) -> None:
        super().__init__(workers, model, np.empty(0, np.int64), False, 0)

    def start(self, state: ChainState, seed: int, chain: int) -> None:
        """Link records for the first time."""
        state.entities = sum(self._exchange("give_alike", (seed,), "start", (seed,)))

    def sweep(
        self, state: ChainState, parameters: Parameters, prior: LinkagePrior, seed: int, chain: int
    ) -> Statistics:
        """Propose splits and merges in blocks of equal true values, then draw y and z."""
        import ray

        fields = choose_fields(self._model, generator(seed, chain, state.sweep, ROTATING))
        tables = ray.put(parameters)
        given = (state.sweep, tables, fields)
        parts = self._exchange("give_rotated", (*given, seed), "rotate", given)
        group_sizes, linkable, largest = zip(*parts, strict=True)
        log_kind = self._model.log_kind(prior.hyperparameters, max(largest))
        sizes = np.sum(group_sizes, axis=0)
        by_group = share_over_groups(prior, log_kind, sizes, seed, chain, state.sweep, SHARING)
        own = None
        if len(prior.base):
            names, counts = self._block_counts(state, len(prior.base))
            none = BlockPrior(np.empty(0), np.empty(0, np.int64), log_kind, NO_SHARES, prior.base)
            own = blocks.draw_own(none, names, counts, seed, chain, state.sweep, SHARING)
        return add_up(self.ask("sweep", tables, by_group, sum(linkable), seed, own))

    def pool(self, state: ChainState, base: Floats, seed: int, chain: int) -> Pooled:
        """Draw what blocks with shares of their own say of the common ones."""
        return blocks.pool(base, *self._block_counts(state, len(base)), seed, chain, state.sweep)

    def weigh_shares(self, state: ChainState, base: Floats) -> Int64s:
        """Sum what blocks with shares of their own weigh, in logs (2,); see `smered.sums`."""
        return blocks.weigh(base, self._block_counts(state, len(base))[1])

    def _block_counts(self, state: ChainState, shares: int) -> tuple[Int64s, Int64s]:
        """The names of all blocks, and their clusters of each kind, which workers share."""
        total = np.zeros((len(self._model.block_sizes), shares + 1), np.int64)
        for names, counts in self._run("block_counts", state, shares):
            total[names] += counts
        return np.arange(len(total)), total

    def follow(self, draw: int) -> None:
        """Take the linkage of a draw."""
        self._exchange("give_clusters", (), "follow", (draw,))

    def write(self, span: Span) -> list[Receipts]:
        """Write the linkage up to the end of a span."""
        return self._exchange("give_home", (), "write", (span,))

    def read(self, span: Span, receipts: Mapping[str, Receipt]) -> int:
        """Take the linkage up where a span left it; return the number of entities."""
        self.ask("read", span, receipts)
        return sum(self._exchange("give_whole", (), "take_whole", ()))

    def _exchange(
        self, give: str, given: Sequence[Any], take: str, taken: Sequence[Any]
    ) -> list[Any]:
        """Let every worker give something to every worker, and do something with what it got.

        What is given stays in the object store: only references pass through the driver.
        """
        import ray

        workers = range(len(self._workers))
        pieces = [
            getattr(worker, give).options(num_returns=len(workers)).remote(*given)
            for worker in self._workers
        ]
        if len(workers) == 1:
            pieces = [[piece] for piece in pieces]
        return list(
            ray.get(
                [
                    getattr(self._workers[to], take).remote(*taken, *(own[to] for own in pieces))
                    for to in workers
                ]
            )
        )


class RemoteLinkage:
    """The linkage of a chain, which its workers keep."""

    def __init__(self, execute: OnRay) -> None:
        self._execute = execute

    def follow(self, draw: int, state: ChainState) -> None:
        """Take the linkage of a draw."""
        self._execute.follow(draw)

    def write(self, folder: Path, span: Span, state: ChainState) -> Receipts:
        """Write the linkage up to the end of a span; return receipts by name."""
        receipts: Receipts = {}
        for part in self._execute.write(span):
            receipts |= part
        return receipts

    def read(
        self, folder: Path, span: Span, receipts: Mapping[str, Receipt], state: ChainState
    ) -> None:
        """Take the linkage up where a span left it."""
        newest = {name: receipt for name, receipt in receipts.items() if f"{span.last:07d}" in name}
        state.entities = self._execute.read(span, newest)


def add_up(parts: Sequence[Statistics]) -> Statistics:
    """The statistics of all workers."""
    return Statistics(*(np.sum(each, axis=0) for each in zip(*parts, strict=True)))


def is_large(value: Any) -> bool:
    """Whether a value is worth sending once for all workers."""
    if isinstance(value, np.ndarray):
        return value.nbytes > 10_000
    return isinstance(value, tuple) and any(is_large(part) for part in value)
