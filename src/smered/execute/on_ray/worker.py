"""A worker: some parts of the records of one chain, and the kernels that run on them."""

import platform
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

import smered
from smered.errors import RunError
from smered.execute import make_executor
from smered.execute.on_ray.outline import Outline, over_records
from smered.execute.on_ray.pieces import check_shared
from smered.execute.serial import Serial
from smered.labels import Groups
from smered.pairs import PairTables, Pattern
from smered.parts import Cuts
from smered.state import ChainState, find_wrong_link, start_parameters
from smered.store.folder import RunFolder
from smered.store.parts import LocalLinkage, Receipts, Span
from smered.store.records import as_records, read_part
from smered.store.schema import Receipt
from smered.store.target import RUN
from smered.tuning import Totals, count_totals
from smered.warm import compile_kernels

__all__ = ["Arranged", "PartsWorker", "Worker", "own_copy", "versions", "writable"]


class Arranged(NamedTuple):
    """What proposals are shared out by."""

    totals: Totals
    block_weight: int | None
    candidates: bool


def versions() -> dict[str, str]:
    """What must be the same everywhere for a run to have the same bytes."""
    import numba

    return {
        "smered": smered.__version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "numba": numba.__version__,
    }


class PartsWorker:
    """Reads neighbouring parts of the records, and does for them what an executor does for all."""

    _execute: Serial
    _state: ChainState

    def __init__(self, path: str, chain: int, parts: tuple[int, int], threads: int) -> None:
        self._path, self._chain, self._parts, self._threads = Path(path), chain, parts, threads
        check_shared(self._path, RUN)
        content = RunFolder.open(self._path).content
        table = pa.concat_tables([read_part(self._path, content, part) for part in range(*parts)])
        self._records = as_records(self._path, content, table)
        self._order = table["record"].to_numpy().astype(np.int64)
        self._cuts = np.array(content.parts[parts[0] : parts[1] + 1])

    def versions(self) -> dict[str, str]:
        """What this worker runs."""
        return versions()

    def run(self, method: str, sweep: int, *arguments: Any) -> Any:
        """Do something to the state."""
        self._state.sweep = sweep
        return getattr(self._execute, method)(self._state, *writable(arguments))


class Worker(PartsWorker):
    """Holds whole blocks."""

    def arrange(self, outline: Outline, patterns: list[Pattern]) -> Arranged:
        """Find candidates; count what proposals are shared out by."""
        compile_kernels()
        outline = own_copy(outline)
        first, last = int(self._records.block[0]), int(self._records.block[-1]) + 1
        self._groups = Groups.of(outline.model.block_sizes, first, last)
        records = replace(self._records, block=self._records.block - first)
        model = self._model = over_records(outline, records)
        arranged = model.arrange(first)
        own_patterns = [writable(pattern) for pattern in patterns]
        self._tables: PairTables = model.pairs.tables(arranged, own_patterns)
        self._layout = model.lay_out(arranged, self._tables)
        weight = self._tables.block_weight
        return Arranged(
            count_totals(self._layout, self._layout.grade),
            None if weight is None else int(weight.sum()),
            len(self._layout.candidates) > 0,
        )

    def share_out(self, proposals: int | None, totals: Totals, block_weight: int | None) -> int:
        """Share proposals out, given the counts of all workers; return the uniform share."""
        model, cuts = self._model, Cuts.of(self._layout, self._cuts - self._cuts[0])
        layout = model.share_out(self._layout, self._tables, proposals, totals, block_weight)
        self._execute = make_executor(model, layout, self._threads, self._groups)
        self._execute.before = int(self._cuts[0])
        self._linkage = LocalLinkage(self._chain, self._order, cuts, self._parts[0])
        self._state = start_parameters(model, self._chain, 0)
        return layout.uniform_share

    def start(self, seed: int) -> int:
        """Link records for the first time; return the number of entities."""
        self._execute.start(self._state, seed, self._chain)
        return self._state.entities

    def do(self, method: str, *arguments: Any) -> Any:
        """Do something without the state."""
        return getattr(self._execute, method)(*writable(arguments))

    def follow(self, draw: int) -> None:
        """Take the linkage of a draw."""
        self._linkage.follow(draw, self._state)

    def write(self, span: Span) -> Receipts:
        """Write the linkage up to the end of a span."""
        return self._linkage.write(self._path, span, self._state)

    def read(self, span: Span, receipts: dict[str, Receipt]) -> int:
        """Take the linkage up where a span left it; return the number of entities."""
        self._linkage.read(self._path, span, receipts, self._state)
        wrong = find_wrong_link(self._state.entity, self._model, self._layout)
        if wrong:
            raise RunError(f"the checkpoint of chain {self._chain} is damaged: {wrong}")
        return self._state.entities


def own_copy(outline: Outline) -> Outline:
    """An outline whose arrays kernels may take; see `writable`."""
    from ray import cloudpickle

    copy: Outline = cloudpickle.loads(cloudpickle.dumps(outline))
    return copy


def writable(value: Any) -> Any:
    """Arrays that kernels may take: those that Ray hands out are read-only, another type.

    Kernels would be compiled once more for it.
    """
    if isinstance(value, np.ndarray):
        return value if value.flags.writeable else value.copy()
    if isinstance(value, tuple):
        parts = [writable(part) for part in value]
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    return value
