"""A run as a folder on disk: append-only while sampling, resumable after any interruption.

What is committed is what a chain's checkpoint, `checkpoints/chain-C.json`, lists. It is replaced in
one atomic rename after everything it lists is safely on disk. Files it does not list are leftovers
of an interruption: they are removed when the run goes on.
"""

import errno
import os
import platform
import re
import shutil
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import smered
from smered.errors import ConfigError, RunError
from smered.layout import Int64s
from smered.model import Model
from smered.parts import cut_records
from smered.sampler import Settings
from smered.state import ChainState
from smered.store.describe import describe_model, rebuild_model
from smered.store.disk import (
    MissingError,
    cannot_write,
    read_json,
    read_table,
    remove,
    write_table,
)
from smered.store.keeper import Keeper, RecordsKeeper
from smered.store.lifetimes import LIFETIMES, Lifetimes
from smered.store.parameters import pack_state, unpack_state
from smered.store.parts import ARRAYS, Linkage, Span
from smered.store.records import read_records
from smered.store.rows import DRAWS, TIMINGS, ChainRecorder, Rows
from smered.store.schema import Checkpoint, RunFile, read_checked, write_sealed
from smered.store.target import LOCK, RUN, check_target, remove_run

__all__ = ["FORMAT", "RunFolder"]

FORMAT = 5
RETRIES = 3  # where another process writes what is read
TABLES = {"lifetimes": LIFETIMES, "draws": DRAWS, "timings": TIMINGS}


class RunFolder:
    """One run on disk."""

    def __init__(self, path: Path, content: RunFile) -> None:
        self.path = path
        self.content = content
        self._lock: int | None = None
        self._checkpoints: dict[int, Checkpoint | None] = {}

    # -- opening -----------------------------------------------------------------------------

    @classmethod
    def create(
        cls,
        path: Path,
        model: Model,
        settings: Settings,
        every: int,
        *,
        provenance: Mapping[str, Any] | None = None,
        replace: bool = False,
        parts: int | None = None,
        keeper: Keeper | None = None,
    ) -> "RunFolder":
        """Make a new run folder, and reserve it for this process.

        A folder that holds anything already is refused, unless it holds a run to `replace`.
        `provenance` is kept in run.json as it is. The linkage is kept in so many `parts`. The
        records are those of the model, unless a `keeper` writes them.
        """
        keeper = keeper or RecordsKeeper(model)
        check_target(path, replace=replace)
        keeper.check(path)
        cuts = cut_records(model.block_sizes, parts, anywhere=model.rotates)
        content = {
            "format": FORMAT,
            "smered": smered.__version__,
            "python": platform.python_version(),
            "numpy": np.__version__,
            "created": now(),
            "files": list(model.records.files),
            "records": model.size,
            "block_columns": list(model.records.block_columns),
            "reading": model.records.reading._asdict(),
            "model": describe_model(model),
            "settings": asdict(settings) | {"threads": None},
            "checkpoint_every": every,
            "parts": cuts.tolist(),
            "inputs": keeper.fingerprints(),
            "provenance": dict(provenance or {}),
            "contents": {},
        }
        run = cls(path, RunFile.model_validate(content))
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise cannot_write(path, error) from None
        run._reserve()
        try:
            check_target(path, replace=replace)  # another process may have been quicker
            remove_run(path, [*TABLES, "checkpoints", "records"])
            content["contents"] = keeper.write(path, cuts)
            write_sealed(path / RUN, content)
        except BaseException:
            shutil.rmtree(path / "records", ignore_errors=True)  # leave no half of a run
            with suppress(OSError):
                (path / LOCK).unlink()
            run.unlock()
            raise
        run.content = RunFile.model_validate(content)
        return run

    @classmethod
    def open(cls, path: Path) -> "RunFolder":
        """Open an existing run folder."""
        for name in (RUN, LOCK, "records", "checkpoints", *TABLES):
            if (path / name).is_symlink():
                raise RunError(f"{path / name} is a link: a run folder holds its own files only")
        found = read_json(path / RUN).get("format")
        if found != FORMAT:
            raise RunError(
                f"{path / RUN}: format {found!r} is not one that smered {smered.__version__} reads"
            )
        return cls(path, read_checked(RunFile, path / RUN))

    def lock(self) -> None:
        """Reserve the folder for this process; the reservation ends with the process."""
        if self._lock is not None:
            return
        self._reserve()
        self._look_again()

    def _look_again(self) -> None:
        """Read what another process may have written meanwhile."""
        self.content = read_checked(RunFile, self.path / RUN)
        self._checkpoints = {}

    def _reserve(self) -> None:
        import fcntl

        try:
            handle = os.open(self.path / LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o644)
        except OSError as error:
            raise cannot_write(self.path / LOCK, error) from None
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(handle)
            if error.errno not in (errno.EAGAIN, errno.EACCES):
                raise RunError(f"cannot lock {self.path / LOCK}: {error.strerror}") from None
            raise RunError(
                f"{self.path} is in use by another process; wait until it ends"
            ) from None
        self._lock = handle

    def unlock(self) -> None:
        """Give the folder free."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    # -- what the run is ---------------------------------------------------------------------

    @property
    def settings(self) -> Settings:
        """How the run samples."""
        try:
            return Settings(**(self.content.settings | {"threads": 1}))
        except (TypeError, ConfigError) as error:
            raise RunError(f"{self.path / RUN} is damaged: {error}") from None

    @property
    def configuration(self) -> dict[str, Any]:
        """The configuration that the run was made with on the command line, if it was."""
        found = self.content.provenance.get("config")
        return found if isinstance(found, dict) else {}

    @property
    def every(self) -> int:
        """Sweeps between two checkpoints."""
        return self.content.checkpoint_every

    @property
    def cut(self) -> int:
        """Sweeps after which files are cut: a file holds many draws however few are kept."""
        return self.every * self.settings.thin

    def model(self) -> Model:
        """Rebuild the model from the records and the description in the folder."""
        return rebuild_model(self.content.model, read_records(self.path, self.content))

    def extend(self, draws: int) -> None:
        """Ask for more draws than before."""
        self._rewrite({"settings": self.content.settings | {"draws": draws}})

    def finish(self, seconds: float, **notes: Any) -> None:
        """Note when a run ended, or was interrupted, and its times; seconds are added up."""
        seconds += (self.content.model_extra or {}).get("seconds", 0.0)
        ended = min(self.draws_done()) == self.settings.draws
        moments = {"ended": now() if ended else None, "interrupted": None if ended else now()}
        self._rewrite(moments | {"seconds": round(seconds, 3)} | notes)

    def _rewrite(self, changes: dict[str, Any]) -> None:
        content = self.content.model_dump() | changes
        write_sealed(self.path / RUN, content)
        self.content = RunFile.model_validate(content)

    # -- chains ------------------------------------------------------------------------------

    @property
    def parts(self) -> Int64s:
        """Where the parts of the records begin, in kernel order, and where the last one ends."""
        return np.array(self.content.parts)

    def commit(self, chain: int, state: ChainState, recorder: ChainRecorder) -> None:
        """Make everything up to this sweep permanent."""
        before = self._checkpoint(chain)
        span = Span(
            first=before.sweep // self.cut * self.cut + 1 if before else 1,
            last=state.sweep,
            last_draw=recorder.last_draw,
            complete=state.sweep % self.cut == 0,
        )
        rows = recorder.take()
        saved = f"checkpoints/chain-{chain}-state-{state.sweep:07d}.parquet"
        tables = {f"{kind}/{span.file(chain)}": table for kind, table in rows._asdict().items()}
        tables[saved] = pack_state(state, recorder)
        files: dict[str, Any] = {}
        if before:
            kept = before.model_dump()["files"].items()
            files = {name: receipt for name, receipt in kept if name not in before.passing}
        written = {name: write_table(self.path / name, table) for name, table in tables.items()}
        written |= recorder.linkage.write(self.path, span, state)
        checkpoint = {
            "sweep": state.sweep,
            "draws": recorder.last_draw + 1,
            "first": span.first,
            "complete": span.complete,
            "passing": [name for name in written if not (span.complete and "-sweeps-" in name)],
            "state": saved,
            "files": files | written,
        }
        write_sealed(self._checkpoint_path(chain), checkpoint)
        self._checkpoints[chain] = Checkpoint.model_validate(checkpoint)
        self.clean(chain)
        if not span.complete:
            recorder.put_back(rows)

    def restore(
        self, chain: int, model: Model, linkage: Linkage
    ) -> tuple[ChainState | None, ChainRecorder]:
        """Take a chain up where its last checkpoint left it."""
        checkpoint = self._checkpoint(chain)
        self.clean(chain)
        recorder = ChainRecorder(model, linkage)
        if not checkpoint:
            return None, recorder
        span = Span(checkpoint.first, checkpoint.sweep, checkpoint.draws - 1, checkpoint.complete)
        table = self._part(checkpoint, checkpoint.state, ARRAYS)
        state = unpack_state(table, chain, model, recorder)
        state.sweep = checkpoint.sweep
        recorder.last_draw = span.last_draw
        linkage.read(self.path, span, checkpoint.files, state)
        if not span.complete:
            names = {kind: f"{kind}/{span.file(chain)}" for kind in Rows._fields}
            recorder.put_back(
                Rows(*(self._part(checkpoint, name, TABLES[kind]) for kind, name in names.items()))
            )
        return state, recorder

    def clean(self, chain: int) -> None:
        """Remove what an interruption left behind and what newer files replace."""
        checkpoint = self._checkpoint(chain)
        listed = set(checkpoint.files) if checkpoint else set()
        for kind in [*TABLES, "checkpoints"]:
            for path in (self.path / kind).glob(f"chain-{chain}-*.parquet"):
                if f"{kind}/{path.name}" not in listed:
                    remove(path)
            for path in (self.path / kind).glob(f".chain-{chain}[-.]*.unfinished"):
                remove(path)

    def sweeps_kept(self) -> int:
        """Committed sweeps of all chains together."""
        checkpoints = [self._checkpoint(chain) for chain in range(self.settings.chains)]
        return sum(checkpoint.sweep for checkpoint in checkpoints if checkpoint)

    def draws_done(self) -> list[int]:
        """Committed draws of each chain."""
        checkpoints = [self._checkpoint(chain) for chain in range(self.settings.chains)]
        return [checkpoint.draws if checkpoint else 0 for checkpoint in checkpoints]

    # -- reading -----------------------------------------------------------------------------

    def read(self, kind: str, columns: Sequence[str] | None = None) -> pa.Table:
        """All committed rows of `lifetimes`, `draws` or `timings`, or some columns of them.

        Another process may have replaced what the checkpoints known here list: then what newer
        ones list, which holds the same draws and more.
        """
        schema = TABLES[kind]
        if columns is not None:
            schema = pa.schema([schema.field(name) for name in columns])
        for _ in range(RETRIES):
            with suppress(MissingError):
                return self._read(kind, schema)
            self._look_again()
        return self._read(kind, schema)

    def _read(self, kind: str, schema: pa.Schema) -> pa.Table:
        parts = [
            (checkpoint, name)
            for chain in range(self.settings.chains)
            if (checkpoint := self._checkpoint(chain))
            for name in sorted(checkpoint.files)
            if name.startswith(f"{kind}/")
        ]
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            tables = pool.map(lambda part: self._part(part[0], part[1], schema), parts)
            return pa.concat_tables([pa.Table.from_batches([], schema), *tables])

    def lifetimes(self) -> Lifetimes:
        """All lifetimes, checked."""
        return Lifetimes.from_table(
            self.read("lifetimes"),
            records=self.content.records,
            chains=self.settings.chains,
            draws=self.draws_done(),
        )

    # -- checkpoints -------------------------------------------------------------------------

    def _checkpoint_path(self, chain: int) -> Path:
        return self.path / "checkpoints" / f"chain-{chain}.json"

    def _checkpoint(self, chain: int) -> Checkpoint | None:
        """A chain's checkpoint as first seen: another process may be writing newer ones."""
        if chain not in self._checkpoints:
            found = self._read_checkpoint(chain)
            if found is None and self._was_committed(chain):
                found = self._read_checkpoint(chain)  # another process may just have written it
                if found is None:
                    raise RunError(
                        f"{self._checkpoint_path(chain)} is missing, and the draws of chain "
                        f"{chain} cannot be read without it: restore it, or remove chain-{chain}-* "
                        "from the run folder and resume"
                    )
            self._checkpoints[chain] = found
        return self._checkpoints[chain]

    def _read_checkpoint(self, chain: int) -> Checkpoint | None:
        path = self._checkpoint_path(chain)
        if not path.exists():
            return None
        found = read_checked(Checkpoint, path)
        if found.draws > self.settings.draws or found.sweep > self.settings.sweeps:
            raise RunError(f"{path} is damaged: it is beyond the end of the run")
        return found

    def _was_committed(self, chain: int) -> bool:
        """Whether a chain without a checkpoint must have had one.

        The run has ended, or there are files that go on from earlier sweeps.
        """
        if (self.content.model_extra or {}).get("ended"):
            return self.settings.draws > 0
        name = re.compile(rf"chain-{chain}-(?:part-\d+-)?sweeps-(\d+)-\d+\.parquet")
        paths = (path for kind in TABLES for path in (self.path / kind).glob("*.parquet"))
        begun = (name.fullmatch(path.name) for path in paths)
        return any(found is not None and int(found[1]) > 1 for found in begun)

    def _part(self, checkpoint: Checkpoint, name: str, schema: pa.Schema) -> pa.Table:
        receipt = checkpoint.files.get(name)
        if receipt is None:
            raise RunError(f"{self.path} is damaged: no checkpoint lists {name}")
        # each record is in one cluster of each draw; there are fewer rows of all else
        most = max(checkpoint.draws, 1) * self.content.records
        most_values = most if name.startswith("lifetimes/") else None
        return read_table(
            self.path / name, receipt.bytes, receipt.sha256, schema, most, most_values
        )


def now() -> str:
    """The time, in UTC."""
    return datetime.now(UTC).isoformat(timespec="seconds")
