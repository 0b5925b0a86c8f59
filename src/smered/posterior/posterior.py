"""The posterior of a run."""

from functools import cached_property
from typing import Protocol

import numpy as np
import pyarrow as pa

from smered.errors import DataError
from smered.layout import Floats, Int64s
from smered.model import Model
from smered.posterior.sets import MatchingSets, lifetimes_with
from smered.posterior.traces import (
    Counts,
    Summary,
    cluster_size_counts,
    count_draws,
    overlap_counts,
    summarise,
)
from smered.sampler import Settings
from smered.store.lifetimes import Lifetimes

__all__ = ["Posterior", "Record"]

Record = int | tuple[str, object]  # a record's number, or its file and id


class StoredRun(Protocol):
    """What a posterior asks of the place where a run is kept."""

    @property
    def settings(self) -> Settings: ...

    def draws_done(self) -> list[int]: ...

    def read(self, kind: str) -> pa.Table: ...

    def lifetimes(self) -> Lifetimes: ...


class Posterior:
    """Draws of the linkage and the parameters, and what they say.

    Records are named by their number (in input order) or by file and id. Where chains were
    interrupted at different moments, the draws that every chain has are used.
    """

    def __init__(self, model: Model, run: StoredRun) -> None:
        self.model = model
        self.records = model.records
        self.run = run
        self.chains = run.settings.chains
        self.draws = min(run.draws_done())
        if self.draws == 0:
            raise DataError("the run has no draws yet; resume it first")

    def __repr__(self) -> str:
        return (
            f"<Posterior of {len(self.records):,} records: {self.chains} chains of "
            f"{self.draws} draws, entities {self.entities()}>"
        )

    # -- the draws ---------------------------------------------------------------------------

    @cached_property
    def lifetimes(self) -> Lifetimes:
        """Every cluster with the range of draws over which it lived."""
        return self.run.lifetimes().before(self.draws)

    @cached_property
    def _draws(self) -> pa.Table:
        table = self.run.read("draws")
        kept = table.filter(pa.compute.less(table["draw"], self.draws))
        return kept.sort_by([("chain", "ascending"), ("draw", "ascending")]).combine_chunks()

    def trace(self, name: str) -> Floats:
        """A column of the draws table by chain and draw: `log_posterior`, `entities`, ..."""
        return self._draws[name].to_numpy().reshape(self.chains, self.draws).astype(float)

    def _lists(self, name: str) -> Floats:
        flat = self._draws[name].combine_chunks().flatten().to_numpy()
        return flat.reshape(self.chains, self.draws, -1)

    @property
    def theta(self) -> dict[str, Floats]:
        """Level probabilities of each field (chains, draws, levels)."""
        flat, start = self._lists("theta"), self.model.field_start
        return {
            part.name: flat[:, :, start[i] : start[i + 1]]
            for i, part in enumerate(self.model.coded)
        }

    @property
    def beta(self) -> Floats:
        """Distortion rates (chains, draws, rows, fields): one row, or one per file."""
        rows, fields = self.model.observed.shape
        return self._lists("beta").reshape(self.chains, self.draws, rows, fields)

    @property
    def hyperparameters(self) -> dict[str, Floats]:
        """Learned hyperparameters of the prior on the linkage (chains, draws)."""
        values = self._lists("hyperparameters")
        return {name: values[:, :, i] for i, name in enumerate(self.model.prior.hyperparameters)}

    def linkage(self, chain: int, draw: int) -> Int64s:
        """The linkage of one draw: for each record the number of its entity's first record."""
        alive = self.lifetimes
        rows = np.flatnonzero((alive.chain == chain) & (alive.first <= draw) & (alive.last >= draw))
        clusters = alive.select(rows)
        entity = np.empty(len(self.records), np.int64)
        entity[clusters.member] = np.repeat(clusters.member[clusters.start[:-1]], clusters.size)
        return entity

    # -- numbers -----------------------------------------------------------------------------

    def entities(self) -> Summary:
        """Posterior of the number of entities, N = |#Lambda|."""
        return summarise(count_draws(self.lifetimes, self.chains, self.draws)[0])

    def overlap(self) -> Counts:
        """Entities by the exact set of files that hold them: the paper's sum over j' of I(...)."""
        return overlap_counts(
            self.lifetimes, self.records.file, self.records.files, self.chains, self.draws
        )

    def cluster_sizes(self) -> Counts:
        """Entities by number of records."""
        return cluster_size_counts(self.lifetimes, self.chains, self.draws)

    # -- matching ----------------------------------------------------------------------------

    @cached_property
    def sets(self) -> MatchingSets:
        """All matching sets that occur in any draw."""
        return MatchingSets.of(self.lifetimes)

    def match_probability(self, *records: Record) -> float:
        """P(lambda_r is the same for all given records): the share of draws that link them."""
        numbers = np.unique([self.number(record) for record in records])
        return float(lifetimes_with(self.lifetimes, numbers).length.sum() / self._total)

    def number(self, record: Record) -> int:
        """The number of a record given by number, or by file and id."""
        if isinstance(record, tuple):
            return self.records.position(*record)
        if not 0 <= record < len(self.records):
            raise DataError(f"no record {record}; numbers run from 0 to {len(self.records) - 1}")
        return int(record)

    @property
    def _total(self) -> int:
        return self.chains * self.draws
