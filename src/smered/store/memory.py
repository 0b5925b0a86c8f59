"""A run that is kept in memory only, behind the same contract as a run folder."""

from collections.abc import Sequence

import pyarrow as pa

from smered.model import Model
from smered.sampler import Settings
from smered.state import ChainState
from smered.store.lifetimes import Lifetimes
from smered.store.rows import ChainRecorder, Rows

__all__ = ["MemoryRun"]


class MemoryRun:
    """Collects the rows of every chain."""

    def __init__(self, model: Model, settings: Settings, every: int) -> None:
        self.settings = settings
        self.every = every
        self._records = len(model.records)
        self._rows: list[list[Rows]] = [[] for _ in range(settings.chains)]
        self._recorders: dict[int, ChainRecorder] = {}

    def restore(self, chain: int, model: Model) -> tuple[ChainState | None, ChainRecorder]:
        """Nothing was kept: start afresh."""
        self._recorders[chain] = ChainRecorder(chain, model)
        return None, self._recorders[chain]

    def commit(self, chain: int, state: ChainState, recorder: ChainRecorder) -> None:
        """Take over the rows collected so far."""
        self._rows[chain].append(recorder.take())

    def draws_done(self) -> list[int]:
        """Draws of each chain."""
        started = [self._recorders.get(chain) for chain in range(self.settings.chains)]
        return [recorder.last_draw + 1 if recorder else 0 for recorder in started]

    def read(self, kind: str, columns: Sequence[str] | None = None) -> pa.Table:
        """All rows of `lifetimes`, `draws` or `timings`, or some columns of them."""
        tables = [getattr(rows, kind) for chain in self._rows for rows in chain]
        if kind == "lifetimes":
            tables += [recorder.living() for recorder in self._recorders.values()]
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
