"""A run that is kept in memory only, behind the same contract as a run folder."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from smered.layout import Int64s
from smered.model import Model
from smered.sampler import Settings
from smered.state import ChainState
from smered.store.lifetimes import Lifetimes
from smered.store.parts import Linkage, LocalLinkage
from smered.store.rows import ChainRecorder, Rows

__all__ = ["MemoryRun"]


class MemoryRun:
    """Collects the rows of every chain."""

    def __init__(self, model: Model, settings: Settings, every: int) -> None:
        self.settings = settings
        self.every = every
        self._model = model
        self._records = len(model.records)
        self._rows: list[list[Rows]] = [[] for _ in range(settings.chains)]
        self._linkages: dict[int, LocalLinkage] = {}
        self._ended: list[pa.Table] = []
        self._recorders: dict[int, ChainRecorder] = {}

    def model(self) -> Model:
        """The model that is sampled."""
        return self._model

    def lock(self) -> None:
        """No other process can use it."""

    def unlock(self) -> None:
        """No other process waits for it."""

    def finish(self, seconds: float, **notes: Any) -> None:
        """There is nowhere to note when the run ended."""

    @property
    def parts(self) -> Int64s:
        """All records in one part."""
        return np.array([0, self._records])

    def restore(
        self, chain: int, model: Model, linkage: Linkage
    ) -> tuple[ChainState | None, ChainRecorder]:
        """Nothing was kept: start afresh."""
        assert isinstance(linkage, LocalLinkage)
        self._linkages[chain] = linkage
        self._recorders[chain] = ChainRecorder(model, linkage)
        return None, self._recorders[chain]

    def commit(self, chain: int, state: ChainState, recorder: ChainRecorder) -> None:
        """Take over the rows collected so far."""
        self._rows[chain].append(recorder.take())
        self._ended += [part.take() for part in self._linkages[chain].parts]

    def draws_done(self) -> list[int]:
        """Draws of each chain."""
        started = [self._recorders.get(chain) for chain in range(self.settings.chains)]
        return [recorder.last_draw + 1 if recorder else 0 for recorder in started]

    def read(self, kind: str, columns: Sequence[str] | None = None) -> pa.Table:
        """All rows of `lifetimes`, `draws` or `timings`, or some columns of them."""
        if kind == "lifetimes":
            living = [
                part.living(self._recorders[chain].last_draw)
                for chain, linkage in self._linkages.items()
                for part in linkage.parts
            ]
            tables = self._ended + living
        else:
            tables = [getattr(rows, kind) for chain in self._rows for rows in chain]
        table = pa.concat_tables(tables)
        return table if columns is None else table.select(columns)

    def lifetimes(self) -> Lifetimes:
        """All lifetimes, checked."""
        return Lifetimes.from_table(
            self.read("lifetimes"),
            records=self._records,
            chains=self.settings.chains,
            draws=self.draws_done(),
        )
