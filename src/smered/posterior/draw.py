"""One draw made whole: its linkage, parameters, and true values and distortions drawn again."""

import threading
from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from smered.layout import Floats, Int32s, Int64s
from smered.pairs import UniformPairs
from smered.state import ChainState, Classes, tabulate_state
from smered.store.lifetimes import Lifetimes

if TYPE_CHECKING:
    from smered.posterior.draws import StoredDraws

__all__ = ["DrawView", "Redrawer", "walk_draws"]


class Redrawer:
    """Draws y and z of stored draws; the same numbers whenever it is asked."""

    def __init__(self, posterior: "StoredDraws") -> None:
        from smered.execute.serial import Serial

        self._model = posterior.model
        self._settings = posterior.run.settings
        layout = self._model.with_pairs(UniformPairs()).layout()
        self._execute = Serial(self._model, layout)
        self._guard = threading.Lock()  # it has one desk to work at

    def __call__(
        self,
        chain: int,
        draw: int,
        entity: Int64s,
        theta: Floats,
        beta: Floats,
        closeness: Floats,
        change: Floats,
        classes: Classes,
    ) -> tuple[Int32s, Int32s]:
        """Return y and z at every record (n, p); -1 where there is no value."""
        model, order = self._model, self._model.order
        in_kernel_order = entity[order]
        _, first, number = np.unique(in_kernel_order, return_index=True, return_inverse=True)
        state = ChainState(
            sweep=self._settings.burn_in + (draw + 1) * self._settings.thin,
            entity=first[number].astype(np.int32),
            entities=len(first),
            theta=theta,
            beta=beta,
            closeness=closeness,
            change=change,
            class_weight=classes.weight,
            class_theta=classes.theta,
            hyperparameters=np.empty(0),
            level_counts=np.empty(0, np.int64),
            distorted=np.empty((0, 0), np.int64),
            telling=np.empty((0, 0), np.int64),
            slips=np.empty((0, 0), np.int64),
            changed=np.empty((0, 0), np.int64),
            exposed=np.empty((0, 0), np.int64),
            class_counts=np.empty(0, np.int64),
            class_levels=np.empty((0, 0), np.int64),
            grade=np.empty(0, np.uint8),
        )
        tables = tabulate_state(state, model)
        with self._guard:
            drawn = self._execute.latent(state, tables, self._settings.seed, chain)
        true, distorted = np.empty_like(drawn[0]), np.empty_like(drawn[1])
        true[order], distorted[order] = drawn
        # from positions in the flat level tables to levels of each field
        return np.where(true >= 0, true - model.field_start[:-1], -1).astype(np.int32), distorted


class DrawView:
    """What a function of a draw may look at. Everything is computed when first asked for."""

    def __init__(
        self, posterior: "StoredDraws", redraw: Redrawer, chain: int, draw: int, linkage: Int64s
    ) -> None:
        self._posterior = posterior
        self._redraw = redraw
        self.chain = chain
        self.draw = draw
        self.linkage = linkage  # (n,) number of the first record of each record's entity

    @property
    def entities(self) -> Int64s:
        """The entities, each named by its first record."""
        return np.flatnonzero(self.linkage == np.arange(len(self.linkage)))

    @property
    def beta(self) -> Floats:
        """Distortion rates (rows, fields)."""
        return self._posterior.beta[self.chain, self.draw]

    @property
    def theta(self) -> dict[str, Floats]:
        """Level probabilities of each field; with latent classes those of distorted values."""
        return {
            name: values[self.chain, self.draw] for name, values in self._posterior.theta.items()
        }

    @property
    def classes(self) -> Classes:
        """Latent classes: their shares, and level probabilities of true values in each."""
        return self._posterior.classes(self.chain, self.draw)

    @cached_property
    def _latent(self) -> tuple[Int32s, Int32s]:
        theta, model = np.concatenate(list(self.theta.values())), self._posterior.model
        closeness = self._posterior.closeness[self.chain, self.draw]
        place = self.chain, self.draw, self.linkage
        change = np.zeros(model.change_shape)
        change[:, model.changing] = self._posterior.change[self.chain, self.draw]
        return self._redraw(*place, theta, self.beta, closeness, change, self.classes)

    @property
    def true_values(self) -> Int32s:
        """Level of the true value of each record's entity (n, p); -1 where no record shows one.

        A value that no record of the entity shows is not drawn: its distribution is theta.
        """
        return self._latent[0]

    @property
    def distorted(self) -> Int32s:
        """Whether each value is distorted (n, p): 1 or 0; -1 where it is missing."""
        return self._latent[1]


def walk_draws(posterior: "StoredDraws", chain: int, draws: Int64s) -> Iterator[DrawView]:
    """Go through some draws of a chain in order, changing only the clusters that changed."""
    redraw = Redrawer(posterior)
    lifetimes = posterior.lifetimes
    own = lifetimes.select(np.flatnonzero(lifetimes.chain == chain))
    wanted = set(np.asarray(draws).tolist())
    start = min(wanted, default=0)
    by_first = own.select(np.argsort(own.first, kind="stable"))
    bounds = np.searchsorted(by_first.first, np.arange(posterior.draws + 1))
    linkage = np.empty(len(posterior.records), np.int64)

    def link(clusters: Lifetimes) -> None:
        first = clusters.member[clusters.start[:-1]]
        linkage[clusters.member] = np.repeat(first, clusters.size)

    link(own.select(np.flatnonzero((own.first <= start) & (own.last >= start))))
    for draw in range(start, max(wanted, default=-1) + 1):
        if draw > start:
            link(by_first.select(np.arange(bounds[draw], bounds[draw + 1])))
        if draw in wanted:
            yield DrawView(posterior, redraw, chain, draw, linkage.copy())
