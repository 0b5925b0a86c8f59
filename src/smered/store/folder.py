"""A run as a folder on disk: append-only while sampling, resumable after any interruption.

What is committed is what a chain's checkpoint, `checkpoints/chain-C.json`, lists. It is replaced in
one atomic rename after everything it lists is safely on disk. Files it does not list are leftovers
of an interruption: they are removed when the run goes on.
"""

import errno
import os
import platform
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
from smered.layout import Int32s
from smered.model import Model
from smered.sampler import Settings
from smered.state import ChainState
from smered.store.describe import describe_model, rebuild_model
from smered.store.disk import cannot_write, read_json, read_table, write_json, write_table
from smered.store.lifetimes import LIFETIMES, Lifetimes
from smered.store.records import fingerprints, read_records, write_records
from smered.store.rows import DRAWS, MOVES, TIMINGS, ChainRecorder, Rows
from smered.store.schema import Checkpoint, RunFile, read_checked

__all__ = ["FORMAT", "RunFolder"]

FORMAT = 2
RUN, LOCK, LOG = "run.json", "lock", "smered.log"
STATE = pa.schema([pa.field("name", pa.string()), pa.field("data", pa.binary())])
OUTPUTS = [f"{table}.{kind}" for table in ("linked", "entities", "pairs")
           for kind in ("csv", "parquet")]  # fmt: skip
OUTPUTS += ["summary.json", "report.html", "report-masked.html", LOG]
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
    ) -> "RunFolder":
        """Make a new run folder, and reserve it for this process.

        A folder that holds anything already is refused, unless it holds a run to `replace`.
        `provenance` is kept in run.json as it is.
        """
        cls.check_target(path, replace=replace)
        content = {
            "format": FORMAT,
            "smered": smered.__version__,
            "python": platform.python_version(),
            "numpy": np.__version__,
            "created": now(),
            "files": list(model.records.files),
            "records": len(model.records),
            "block_columns": list(model.records.block_columns),
            "model": describe_model(model),
            "settings": asdict(settings) | {"threads": None},
            "checkpoint_every": every,
            "inputs": fingerprints(model.records),
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
            cls.check_target(path, replace=replace)  # another process may have been quicker
            remove_run(path)
            content["contents"] = write_records(path, model.records, model.coded)
            write_json(path / RUN, content)
        except BaseException:
            shutil.rmtree(path / "records", ignore_errors=True)  # leave no half of a run
            with suppress(OSError):
                (path / LOCK).unlink()
            run.unlock()
            raise
        run.content = RunFile.model_validate(content)
        return run

    @staticmethod
    def check_target(path: Path, *, replace: bool = False) -> None:
        """Refuse a place where no run folder can be made; `replace` admits one with a run."""
        if path.exists() and not path.is_dir():
            raise ConfigError(f"{path} is a file; choose another folder")
        if holds_something(path) and not (replace and is_run(path)):
            remedy = "choose another folder"
            if is_run(path):
                remedy += ", or replace the run in it with --force"
            raise ConfigError(f"{path} exists already and is not empty; {remedy}")
        parent = next(p for p in [path, *path.absolute().parents] if p.exists())
        if not os.access(parent, os.W_OK | os.X_OK):
            fixed = os.statvfs(parent).f_flag & os.ST_RDONLY
            reason = "the folder is read-only" if fixed else "you may not write there"
            raise RunError(f"cannot write to {parent}: {reason}: choose another output folder")

    @classmethod
    def open(cls, path: Path) -> "RunFolder":
        """Open an existing run folder."""
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
        # what another process wrote before it gave the folder free
        self.content = read_checked(RunFile, self.path / RUN)
        self._checkpoints = {}

    def _reserve(self) -> None:
        import fcntl

        handle = os.open(self.path / LOCK, os.O_RDWR | os.O_CREAT, 0o644)
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
        except TypeError as error:
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

    def model(self) -> Model:
        """Rebuild the model from the records and the description in the folder."""
        return rebuild_model(self.content.model, read_records(self.path, self.content))

    def extend(self, draws: int) -> None:
        """Ask for more draws than before."""
        self._rewrite({"settings": self.content.settings | {"draws": draws}})

    def finish(self, **times: Any) -> None:
        """Note when the run ended."""
        self._rewrite({"ended": now()} | times)

    def _rewrite(self, changes: dict[str, Any]) -> None:
        content = self.content.model_dump() | changes
        write_json(self.path / RUN, content)
        self.content = RunFile.model_validate(content)

    # -- chains ------------------------------------------------------------------------------

    def commit(self, chain: int, state: ChainState, recorder: ChainRecorder) -> None:
        """Make everything up to this sweep permanent."""
        before = self._checkpoint(chain)
        first = before.sweep // self.every * self.every if before else 0
        span = f"chain-{chain}-sweeps-{first + 1:07d}-{state.sweep:07d}.parquet"
        rows = recorder.take()
        living = f"lifetimes/chain-{chain}-living-{state.sweep:07d}.parquet"
        saved = f"checkpoints/chain-{chain}-state-{state.sweep:07d}.parquet"
        tables = {f"{kind}/{span}": table for kind, table in rows._asdict().items()}
        tables |= {living: recorder.living(), saved: pack_state(state, recorder)}
        parts: dict[str, Any] = {}
        if before:
            replaced = {before.living, before.state, *before.unfinished}
            kept = before.model_dump()["parts"].items()
            parts = {name: receipt for name, receipt in kept if name not in replaced}
        parts |= {name: write_table(self.path / name, table) for name, table in tables.items()}
        complete = state.sweep % self.every == 0
        checkpoint = {
            "sweep": state.sweep,
            "draws": recorder.last_draw + 1,
            "living": living,
            "state": saved,
            "unfinished": [] if complete else [f"{kind}/{span}" for kind in TABLES],
            "parts": parts,
        }
        write_json(self._checkpoint_path(chain), checkpoint)
        self._checkpoints[chain] = Checkpoint.model_validate(checkpoint)
        self.clean(chain)
        if not complete:
            recorder.put_back(rows)

    def restore(self, chain: int, model: Model) -> tuple[ChainState | None, ChainRecorder]:
        """Take a chain up where its last checkpoint left it."""
        checkpoint = self._checkpoint(chain)
        self.clean(chain)
        if not checkpoint:
            return None, ChainRecorder(chain, model)
        table = self._part(checkpoint, checkpoint.state, STATE)
        state, recorder = unpack_state(table, checkpoint, chain, model)
        if checkpoint.unfinished:
            by_kind = {name.split("/")[0]: name for name in checkpoint.unfinished}
            recorder.put_back(
                Rows(*(self._part(checkpoint, by_kind[kind], TABLES[kind]) for kind in TABLES))
            )
        return state, recorder

    def clean(self, chain: int) -> None:
        """Remove what an interruption left behind and what newer files replace."""
        checkpoint = self._checkpoint(chain)
        listed = set(checkpoint.parts) if checkpoint else set()
        for kind in [*TABLES, "checkpoints"]:
            for path in (self.path / kind).glob(f"chain-{chain}-*.parquet"):
                if f"{kind}/{path.name}" not in listed:
                    path.unlink()
            for path in (self.path / kind).glob(f".chain-{chain}[-.]*.unfinished"):
                path.unlink()

    def draws_done(self) -> list[int]:
        """Committed draws of each chain."""
        checkpoints = [self._checkpoint(chain) for chain in range(self.settings.chains)]
        return [checkpoint.draws if checkpoint else 0 for checkpoint in checkpoints]

    # -- reading -----------------------------------------------------------------------------

    def read(self, kind: str, columns: Sequence[str] | None = None) -> pa.Table:
        """All committed rows of `lifetimes`, `draws` or `timings`, or some columns of them."""
        schema = TABLES[kind]
        if columns is not None:
            schema = pa.schema([schema.field(name) for name in columns])
        parts = [
            (checkpoint, name)
            for chain in range(self.settings.chains)
            if (checkpoint := self._checkpoint(chain))
            for name in sorted(checkpoint.parts)
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
            path = self._checkpoint_path(chain)
            self._checkpoints[chain] = read_checked(Checkpoint, path) if path.exists() else None
        return self._checkpoints[chain]

    def _part(self, checkpoint: Checkpoint, name: str, schema: pa.Schema) -> pa.Table:
        receipt = checkpoint.parts[name]
        return read_table(self.path / name, receipt.bytes, receipt.sha256, schema)


def holds_something(path: Path) -> bool:
    """Whether a folder holds more than what a run that never began leaves."""
    return path.is_dir() and any(entry.name not in (LOG, LOCK) for entry in path.iterdir())


def is_run(path: Path) -> bool:
    """Whether a folder holds a run of ours."""
    try:
        return "format" in read_json(path / RUN) and (path / "records").is_dir()
    except RunError:
        return False


def remove_run(path: Path) -> None:
    """Remove what a run and its outputs left in a folder, and nothing else."""
    for name in (*TABLES, "checkpoints", "records"):
        shutil.rmtree(path / name, ignore_errors=True)
    for name in OUTPUTS:
        (path / name).unlink(missing_ok=True)
    (path / RUN).unlink(missing_ok=True)


def now() -> str:
    """The time, in UTC."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def pack_state(state: ChainState, recorder: ChainRecorder) -> pa.Table:
    """The arrays of a chain as named bytes."""
    arrays = {name: value for name, value in vars(state).items() if isinstance(value, np.ndarray)}
    arrays |= {
        "entity_at_last_draw": recorder.lifetimes.entity,
        "born": recorder.lifetimes.born,
        "moves": recorder.moves,
    }
    data = [value.tobytes() for value in arrays.values()]
    return pa.Table.from_arrays([pa.array(list(arrays)), pa.array(data, pa.binary())], schema=STATE)


def unpack_state(
    table: pa.Table, checkpoint: Checkpoint, chain: int, model: Model
) -> tuple[ChainState, ChainRecorder]:
    """The reverse of `pack_state`; every array must have the size that the model gives it."""
    data: dict[str, bytes] = {row["name"]: row["data"] for row in table.to_pylist()}
    n, levels, rates = len(model.records), len(model.mu), model.observed.shape

    def array(name: str, kind: type[np.generic], *shape: int) -> Any:
        content = data.get(name, b"")
        if len(content) != np.dtype(kind).itemsize * int(np.prod(shape)):
            raise RunError(f"the checkpoint of chain {chain} is damaged: {name} has a wrong size")
        return np.frombuffer(content, kind).reshape(shape).copy()

    entity: Int32s = array("entity", np.int32, n)
    named = (entity >= 0).all() and (entity <= np.arange(n)).all()
    if not named or (entity[entity] != entity).any():
        raise RunError(f"the checkpoint of chain {chain} is damaged: entity is no linkage")
    state = ChainState(
        sweep=checkpoint.sweep,
        entity=entity,
        entities=int((entity == np.arange(n)).sum()),
        theta=array("theta", np.float64, levels),
        beta=array("beta", np.float64, *rates),
        closeness=array("closeness", np.float64, rates[1]),
        class_weight=array("class_weight", np.float64, model.classes),
        class_theta=array("class_theta", np.float64, *model.class_shape),
        hyperparameters=array("hyperparameters", np.float64, len(model.prior.hyperparameters)),
        level_counts=array("level_counts", np.int64, levels),
        distorted=array("distorted", np.int64, *rates),
        telling=array("telling", np.int64, *rates),
        slips=array("slips", np.int64, *rates),
        class_counts=array("class_counts", np.int64, model.classes),
        class_levels=array("class_levels", np.int64, *model.class_shape),
        grade=np.frombuffer(data.get("grade", b""), np.uint8).copy(),
    )
    started = checkpoint.draws > 0
    recorder = ChainRecorder(
        chain,
        model,
        array("entity_at_last_draw", np.int32, n if started else 0),
        array("born", np.int32, n),
        array("moves", np.int64, len(MOVES)),
    )
    recorder.last_draw = checkpoint.draws - 1
    return state, recorder
