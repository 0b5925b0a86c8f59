"""The draws of a run, as they are stored: linkages, numbers, and functions of single draws."""

import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import ArrayLike, NDArray

from smered.diagnostics import mcse
from smered.errors import ConfigError, DataError, RunError
from smered.layout import Floats, Int32s, Int64s
from smered.model import Model
from smered.posterior.draw import DrawView, Redrawer, walk_draws
from smered.posterior.parameters import ParameterDraws
from smered.records import Records
from smered.sampler import Settings
from smered.store.lifetimes import Lifetimes
from smered.store.rows import MOVES

__all__ = ["Expectation", "Record", "StoredDraws"]

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

    def model(self) -> Model: ...

    def draws_done(self) -> list[int]: ...

    def read(self, kind: str, columns: Sequence[str] | None = None) -> pa.Table: ...

    def lifetimes(self) -> Lifetimes: ...


def common_draws(done: Sequence[int]) -> tuple[int, int]:
    """How many of the first chains, and how many draws of each, give most draws in all."""
    return max(
        ((chains, min(done[:chains])) for chains in range(1, len(done) + 1)),
        key=lambda choice: (choice[0] * choice[1], choice[0]),
    )


class StoredDraws(ParameterDraws):
    """What every draw holds, whatever is asked of it."""

    def __init__(self, run: StoredRun, model: Model | None = None) -> None:
        """Take a run, and its model where it is at hand."""
        self.run = run
        if model is not None:
            self.model = model
        self.chains, self.draws = common_draws(run.draws_done())
        if self.draws == 0:
            raise DataError("the run has no draws yet; resume it first")

    @cached_property
    def model(self) -> Model:
        """The model that was sampled; read, with all its records, when it is first needed."""
        return self.run.model()

    @property
    def records(self) -> Records:
        """The records that were linked."""
        return self.model.records

    @cached_property
    def lifetimes(self) -> Lifetimes:
        """Every cluster with the range of draws over which it lived."""
        found = self.run.lifetimes().before(self.chains, self.draws)
        if found.size.max() > self.model.largest_cluster:
            raise RunError("the lifetimes are damaged: they link more records than may be linked")
        return found

    def _draws(self, *columns: str) -> pa.Table:
        """Columns of the draws table, by chain and draw."""
        table = self.run.read("draws", ["chain", "draw", *columns])
        used = pc.and_(pc.less(table["draw"], self.draws), pc.less(table["chain"], self.chains))
        found = table.filter(used).sort_by([("chain", "ascending"), ("draw", "ascending")])
        chain, draw = np.divmod(np.arange(self._total), self.draws)
        if not (np.array_equal(found["chain"], chain) and np.array_equal(found["draw"], draw)):
            raise RunError("the draws are damaged: they do not hold each draw once")
        return found

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

    def at(self, chain: int, draw: int) -> DrawView:
        """One draw with its linkage, parameters, true values and distortions."""
        self._check_draw(chain, draw)
        return DrawView(self, self._redrawer, chain, draw, self.linkage(chain, draw))

    def views(self, spots: Sequence[tuple[int, int]]) -> Iterator[DrawView]:
        """Several draws, each by its chain and number, which must ascend within a chain."""
        for chain, own in itertools.groupby(spots, key=lambda spot: spot[0]):
            draws = np.array([draw for _, draw in own])
            for draw in draws:
                self._check_draw(chain, draw)
            if (np.diff(draws) <= 0).any():
                raise ConfigError("the draws of a chain must be given in ascending order, once")
            yield from walk_draws(self, chain, draws)

    def spaced(self, draws: int | None) -> list[tuple[int, int]]:
        """Chains and numbers of so many evenly spaced draws of each chain."""
        chosen = self._spaced(draws).tolist()
        return [(chain, draw) for chain in range(self.chains) for draw in chosen]

    def spread(self, count: int) -> list[tuple[int, int]]:
        """Chains and numbers of so many draws, evenly spaced over all of them."""
        if not 1 <= count <= self._total:
            raise ConfigError(
                f"{count} draws asked for, but the run has {self._total}; ask for 1 to "
                f"{self._total}, or extend the run"
            )
        chosen = (2 * np.arange(count) + 1) * self._total // (2 * count)
        return [divmod(int(i), self.draws) for i in chosen]

    def true_values(self, chain: int, draw: int) -> Int32s:
        """Y of a draw at every record (n, p), given its linkage and parameters; -1 if not shown.

        The same draw gives the same values whenever it is asked.
        """
        return self.at(chain, draw).true_values

    def distorted(self, chain: int, draw: int) -> Int32s:
        """Z of a draw at every record (n, p): 1 or 0; -1 where the record has no value."""
        return self.at(chain, draw).distorted

    def expectation(
        self, function: Callable[[DrawView], ArrayLike], draws: int | None = None
    ) -> Expectation:
        """E[f(linkage, y, z, theta, beta)], the mean of f over draws, with its Monte Carlo error.

        `draws` takes that many evenly spaced draws of each chain (default: all). They are worked
        on in parallel.
        """
        found = self.evaluate(function, draws).astype(float)
        flat = found.reshape(*found.shape[:2], -1)
        error = np.array([mcse(flat[:, :, i]) for i in range(flat.shape[2])])
        return Expectation(found.mean(axis=(0, 1)), error.reshape(found.shape[2:]), found)

    def evaluate(
        self, function: Callable[[DrawView], ArrayLike], draws: int | None = None
    ) -> NDArray[Any]:
        """The value of a function in evenly spaced draws of each chain (chains, draws, ...)."""
        chosen, threads = self._spaced(draws), os.cpu_count() or 1
        pieces = np.array_split(chosen, min(-(-threads // self.chains), len(chosen)))

        def values(place: tuple[int, Int64s]) -> list[NDArray[Any]]:
            return [np.asarray(function(view)) for view in walk_draws(self, *place)]

        with ThreadPoolExecutor(threads) as pool:
            places = itertools.product(range(self.chains), pieces)
            found = list(itertools.chain.from_iterable(pool.map(values, places)))
        together = np.array(found)
        return together.reshape(self.chains, len(chosen), *together.shape[1:])

    # -- helpers -----------------------------------------------------------------------------

    def number(self, record: Record) -> int:
        """The number of a record given by number, or by file and id."""
        if isinstance(record, tuple):
            return self.records.position(*record)
        if not isinstance(record, int | np.integer) or not 0 <= record < len(self.records):
            raise DataError(f"no record {record}; numbers run from 0 to {len(self.records) - 1}")
        return int(record)

    def numbers(self, records: Iterable[Record]) -> Int64s:
        """The numbers of some records, ascending, each once."""
        found = np.unique([self.number(record) for record in records])
        if not len(found):
            raise DataError("no records are given; name one or more")
        return found

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
