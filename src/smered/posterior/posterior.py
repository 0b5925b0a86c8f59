"""The posterior of a run."""

import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import ArrayLike, NDArray

from smered.diagnostics import mcse
from smered.errors import ConfigError, DataError
from smered.layout import Floats, Int32s, Int64s
from smered.model import Model
from smered.posterior.attributes import count_attributes
from smered.posterior.canonical import canonical_table
from smered.posterior.convergence import Diagnostics, chain_agreement, diagnose
from smered.posterior.datatree import make_datatree
from smered.posterior.draw import DrawView, Redrawer, walk_draws
from smered.posterior.estimate import Estimate, Loss, make_estimate
from smered.posterior.evidence import field_draw, set_evidence
from smered.posterior.parameters import ParameterDraws
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
from smered.store.rows import MOVES

if TYPE_CHECKING:
    import xarray

__all__ = ["Expectation", "Posterior", "Record"]

MOST_PATTERNS = 64  # more overlap patterns than this are not diagnosed one by one

Record = int | tuple[str, object]  # a record's number, or its file and id


@dataclass(frozen=True)
class Expectation:
    """Posterior mean of a function, its Monte Carlo standard error, and its value in each draw."""

    mean: Floats
    mcse: Floats
    draws: Floats  # (chains, draws, ...)


class StoredRun(Protocol):
    """What a posterior asks of the place where a run is kept."""

    @property
    def settings(self) -> Settings: ...

    def draws_done(self) -> list[int]: ...

    def read(self, kind: str, columns: Sequence[str] | None = None) -> pa.Table: ...

    def lifetimes(self) -> Lifetimes: ...


def common_draws(done: Sequence[int]) -> tuple[int, int]:
    """How many of the first chains, and how many draws of each, give most draws in all."""
    return max(
        ((chains, min(done[:chains])) for chains in range(1, len(done) + 1)),
        key=lambda choice: (choice[0] * choice[1], choice[0]),
    )


class Posterior(ParameterDraws):
    """Draws of the linkage and the parameters, and what they say.

    Records are named by their number (in input order) or by file and id. Where chains were
    interrupted at different moments, the first draws of the first chains are used, as many as
    give most draws when each of these chains has the same number.
    """

    def __init__(self, model: Model, run: StoredRun) -> None:
        self.model = model
        self.records = model.records
        self.run = run
        self.chains, self.draws = common_draws(run.draws_done())
        if self.draws == 0:
            raise DataError("the run has no draws yet; resume it first")

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> "Posterior":
        """Open the posterior that a run folder holds, finished or not."""
        from smered.store.folder import RunFolder

        run = RunFolder.open(Path(path))
        return cls(run.model(), run)

    def __repr__(self) -> str:
        return (
            f"<Posterior of {len(self.records):,} records: {self.chains} chains of "
            f"{self.draws} draws, entities {self.entities()}>"
        )

    # -- the draws ---------------------------------------------------------------------------

    @cached_property
    def lifetimes(self) -> Lifetimes:
        """Every cluster with the range of draws over which it lived."""
        return self.run.lifetimes().before(self.chains, self.draws)

    def _draws(self, *columns: str) -> pa.Table:
        """Columns of the draws table, by chain and draw."""
        table = self.run.read("draws", ["chain", "draw", *columns])
        used = pc.and_(pc.less(table["draw"], self.draws), pc.less(table["chain"], self.chains))
        return table.filter(used).sort_by([("chain", "ascending"), ("draw", "ascending")])

    @cached_property
    def _numbers(self) -> pa.Table:
        return self._draws("entities", "log_posterior", *MOVES)

    def trace(self, name: str) -> Floats:
        """A number by chain and draw: `log_posterior`, `entities`, `merges_accepted`, ..."""
        return self._numbers[name].to_numpy().reshape(self.chains, self.draws).astype(float)

    def linkage(self, chain: int, draw: int) -> Int64s:
        """The linkage of one draw: for each record the number of its entity's first record."""
        self._check_draw(chain, draw)
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
        return self._overlap

    @cached_property
    def _overlap(self) -> Counts:
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

    def pairs(self, min_probability: float = 0.01) -> pa.Table:
        """All pairs with at least this match probability, most probable first.

        Columns record_a, record_b (numbers), file_a, id_a, file_b, id_b, probability.
        """
        one, two, together = self.sets.pairs
        kept = np.flatnonzero(together / self._total >= min_probability)
        kept = kept[np.argsort(-together[kept], kind="stable")]
        columns: dict[str, object] = {"record_a": one[kept], "record_b": two[kept]}
        for side, numbers in (("a", one[kept]), ("b", two[kept])):
            columns[f"file_{side}"] = self._files(numbers)
            columns[f"id_{side}"] = self.records.ids.take(pa.array(numbers))
        return pa.table(columns | {"probability": together[kept] / self._total})

    def matching_sets(self, record: Record) -> list[tuple[tuple[int, ...], float]]:
        """Every set that is a maximal matching set of the record in some draw, most probable first.

        P(Omega_A = 1) = (1 / S_G) sum over draws of Omega(A, Lambda): the paper's table for one
        record. The probabilities add up to 1.
        """
        holding = lifetimes_with(self.lifetimes, np.array([self.number(record)]))
        found = MatchingSets.of(holding)
        return [
            (tuple(found.sets.member_list(row)), float(found.draws[row] / self._total))
            for row in np.argsort(found.rank)
        ]

    def matching_set_probability(self, records: Iterable[Record]) -> float:
        """P(exactly these records are one entity): the share of draws with that cluster."""
        numbers = np.unique([self.number(record) for record in records])
        holding = lifetimes_with(self.lifetimes, numbers)
        return float(holding.length[holding.size == len(numbers)].sum() / self._total)

    def most_probable_matching_sets(self) -> list[tuple[tuple[int, ...], float]]:
        """For each record the set that is most often its matching set, with its probability.

        M_ij = argmax over A holding (i, j) of P(Omega_A = 1). Ties go to the larger set, then to
        the one that comes first in lexicographic order of record numbers.
        """
        chosen = self.sets.most_probable()
        sets = {row: tuple(self.sets.sets.member_list(row)) for row in np.unique(chosen).tolist()}
        share = self.sets.draws / self._total
        return [(sets[row], float(share[row])) for row in chosen.tolist()]

    def shared_most_probable_matching_sets(self) -> list[tuple[tuple[int, ...], float]]:
        """Sets that are the most probable matching set of every record they hold."""
        return [
            (tuple(self.sets.sets.member_list(row)), float(self.sets.draws[row] / self._total))
            for row in self.sets.shared().tolist()
        ]

    def estimate(self, loss: Loss = "mpmms") -> Estimate:
        """One transitive linkage: the paper's ("mpmms"), or of least expected loss.

        "mpmms" links records exactly if they share a shared most probable matching set; "binder"
        and "vi" minimise the expected Binder or variation-of-information loss, "f1" makes the
        expected F1 of pairs largest.
        """
        return make_estimate(self.sets, self._total, self.records, loss)

    def evidence(self, *records: Record) -> dict[str, float]:
        """How each field speaks for these records being one entity, as natural logs of odds.

        log P(values | one entity) - sum over r of log P(values of r | an entity of its own), with
        theta and beta at their posterior means. Positive speaks for one entity, negative against.
        With latent classes, each field is looked at as if it did not depend on the others.
        """
        numbers = np.unique([self.number(record) for record in records])
        (found,) = set_evidence(self, np.zeros(len(numbers), np.int64), numbers, 1)
        return dict(zip(self.theta, found.tolist(), strict=True))

    # -- true values -------------------------------------------------------------------------

    def at(self, chain: int, draw: int) -> DrawView:
        """One draw with its linkage, parameters, true values and distortions."""
        self._check_draw(chain, draw)
        return DrawView(self, self._redrawer, chain, draw, self.linkage(chain, draw))

    def true_values(self, chain: int, draw: int) -> Int32s:
        """Y of a draw at every record (n, p), drawn exactly as in the sweep; -1 if not shown."""
        return self.at(chain, draw).true_values

    def distorted(self, chain: int, draw: int) -> Int32s:
        """Z of a draw at every record (n, p): 1 or 0; -1 where the record has no value."""
        return self.at(chain, draw).distorted

    def expectation(
        self, function: Callable[[DrawView], ArrayLike], draws: int | None = None
    ) -> Expectation:
        """E[f(linkage, y, z, theta, beta)], the mean of f over draws, with its Monte Carlo error.

        `draws` takes that many evenly spaced draws of each chain (default: all). Chains are
        worked on in parallel.
        """
        found = self.evaluate(function, draws).astype(float)
        flat = found.reshape(*found.shape[:2], -1)
        error = np.array([mcse(flat[:, :, i]) for i in range(flat.shape[2])])
        return Expectation(found.mean(axis=(0, 1)), error.reshape(found.shape[2:]), found)

    def evaluate(
        self, function: Callable[[DrawView], ArrayLike], draws: int | None = None
    ) -> NDArray[Any]:
        """The value of a function in evenly spaced draws of each chain (chains, draws, ...)."""
        chosen = self._spaced(draws)

        def values(chain: int) -> list[NDArray[Any]]:
            return [np.asarray(function(view)) for view in walk_draws(self, chain, chosen)]

        with ThreadPoolExecutor(min(self.chains, os.cpu_count() or 1)) as pool:
            return np.array(list(pool.map(values, range(self.chains))))

    def attributes(self, field: str, by: str | None = None, draws: int | None = 50) -> Counts:
        """Entities by the true value of a field, in total or within groups, in every draw.

        `by` is another field (its true value makes the groups) or "overlap" (the files that hold
        the entity). Kinds are levels, or (group, level). True values are drawn again for `draws`
        evenly spaced draws of each chain.
        """
        return count_attributes(self, field, by, draws)

    def canonical(self, estimate: Estimate | None = None, draws: int = 50) -> pa.Table:
        """One row per entity of the estimate, with each field's most probable true value.

        Only values that some record of the entity shows are considered. Probabilities are exact
        given the entity's records, averaged over `draws` evenly spaced draws of each chain's theta
        and beta; with latent classes, as if fields did not depend on each other.
        """
        chosen = self._spaced(draws)
        spots = [(chain, int(draw)) for chain in range(self.chains) for draw in chosen]
        fields = range(len(self.model.coded))
        drawn = [[field_draw(self, column, *spot) for spot in spots] for column in fields]
        return canonical_table(estimate or self.estimate(), self.model, drawn)

    # -- diagnostics -------------------------------------------------------------------------

    def scalars(self) -> dict[str, Floats]:
        """Every label-free number by chain and draw: what diagnostics look at."""
        rates = {
            name: self.beta[:, :, row, column]
            for row, file in enumerate(self.records.files if self.model.rate_rows > 1 else [""])
            for column, part in enumerate(self.model.coded)
            if not part.exact
            for name in [f"beta[{part.name}{f', {file}' if file else ''}]"]
        }
        overlap = {
            f"overlap[{', '.join(pattern)}]": counts.draws
            for pattern, counts in self.overlap().items()
        }
        return (
            {"entities": self.entities().draws, "log_posterior": self.trace("log_posterior")}
            | rates
            | self.hyperparameters
            | (overlap if len(overlap) <= MOST_PATTERNS else {})
        )

    def diagnostics(self) -> Diagnostics:
        """R-hat, effective sample sizes, acceptance and agreement of chains, with a verdict."""
        return diagnose(
            self.scalars(),
            {name: self.trace(name) for name in MOVES},
            chain_agreement(self.lifetimes, self.chains, self.draws),
        )

    def to_datatree(self) -> "xarray.DataTree":
        """The draws as an xarray DataTree with ArviZ's groups and dimensions."""
        return make_datatree(self)

    # -- helpers -----------------------------------------------------------------------------

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

    @cached_property
    def _redrawer(self) -> Redrawer:
        return Redrawer(self)

    def _check_draw(self, chain: int, draw: int) -> None:
        if not (0 <= chain < self.chains and 0 <= draw < self.draws):
            raise DataError(
                f"no draw {draw} of chain {chain}; there are {self.chains} chains of {self.draws}"
            )

    def _spaced(self, draws: int | None) -> Int64s:
        if draws is None or draws >= self.draws:
            return np.arange(self.draws)
        if draws < 1:
            raise ConfigError(f"draws = {draws} must be at least 1")
        return np.linspace(0, self.draws - 1, draws).round().astype(np.int64)

    def _files(self, numbers: Int64s) -> pa.Array:
        return pa.array(self.records.files).take(pa.array(self.records.file[numbers]))
