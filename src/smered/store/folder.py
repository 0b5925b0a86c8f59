"""A run as a folder on disk: append-only while sampling, resumable after any interruption.

What is committed is what a chain's checkpoint, `checkpoints/chain-C.json`, lists. It is replaced in
one atomic rename after everything it lists is safely on disk. Files it does not list are leftovers
of an interruption: they are removed when the run goes on.
"""

import os
import platform
from collections.abc import Mapping
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
from smered.store.disk import read_json, read_table, write_json, write_table
from smered.store.lifetimes import LIFETIMES, Lifetimes
from smered.store.records import read_records, write_records
from smered.store.rows import DRAWS, MOVES, TIMINGS, ChainRecorder, Rows

__all__ = ["FORMAT", "RunFolder"]

FORMAT = 1
RUN, LOCK = "run.json", "lock"
STATE = pa.schema([pa.field("name", pa.string()), pa.field("data", pa.binary())])
TABLES = {"lifetimes": LIFETIMES, "draws": DRAWS, "timings": TIMINGS}


class RunFolder:
    """One run on disk."""

    def __init__(self, path: Path, content: Mapping[str, Any]) -> None:
        self.path = path
        self.content = dict(content)
        self._lock: int | None = None

    # -- opening -----------------------------------------------------------------------------

    @classmethod
    def create(
        cls,
        path: Path,
        model: Model,
        settings: Settings,
        every: int,
        inputs: Mapping[str, Any] | None = None,
    ) -> "RunFolder":
        """Make a new run folder; refuse one that holds anything already."""
        if path.exists() and (not path.is_dir() or any(path.iterdir())):
            raise ConfigError(f"{path} exists already and is not empty; choose another folder")
        receipts = write_records(path, model.records)
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
            "inputs": dict(inputs or {}),
            "contents": receipts,
        }
        self = cls(path, content)
        write_json(path / RUN, content)
        return self

    @classmethod
    def open(cls, path: Path) -> "RunFolder":
        """Open an existing run folder."""
        content = read_json(path / RUN)
        if content.get("format") != FORMAT:
            raise RunError(
                f"{path / RUN}: format {content.get('format')!r} is not one that "
                f"smered {smered.__version__} reads"
            )
        missing = {"files", "model", "settings", "contents", "checkpoint_every"} - set(content)
        if missing:
            raise RunError(f"{path / RUN} is damaged: it lacks {', '.join(sorted(missing))}")
        return cls(path, content)

    def lock(self) -> None:
        """Reserve the folder for this process; the reservation ends with the process."""
        import fcntl

        handle = os.open(self.path / LOCK, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(handle)
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
            return Settings(**(self.content["settings"] | {"threads": 1}))
        except TypeError as error:
            raise RunError(f"{self.path / RUN} is damaged: {error}") from None

    @property
    def every(self) -> int:
        """Sweeps between two checkpoints."""
        return int(self.content["checkpoint_every"])

    def model(self) -> Model:
        """Rebuild the model from the records and the description in the folder."""
        return rebuild_model(self.content["model"], read_records(self.path, self.content))

    def extend(self, draws: int) -> None:
        """Ask for more draws than before."""
        self.content["settings"]["draws"] = draws
        write_json(self.path / RUN, self.content)

    def finish(self, **times: Any) -> None:
        """Note when the run ended."""
        self.content |= {"ended": now()} | times
        write_json(self.path / RUN, self.content)

    # -- chains ------------------------------------------------------------------------------

    def commit(self, chain: int, state: ChainState, recorder: ChainRecorder) -> None:
        """Make everything up to this sweep permanent."""
        before = self._checkpoint(chain)
        first = before["sweep"] // self.every * self.every if before else 0
        span = f"chain-{chain}-sweeps-{first + 1:07d}-{state.sweep:07d}.parquet"
        rows = recorder.take()
        files = dict(before["parts"]) if before else {}
        for kind, table in rows._asdict().items():
            files[f"{kind}/{span}"] = write_table(self.path / kind / span, table)
        living = f"lifetimes/chain-{chain}-living-{state.sweep:07d}.parquet"
        saved = f"checkpoints/chain-{chain}-state-{state.sweep:07d}.parquet"
        files[living] = write_table(self.path / living, recorder.living())
        files[saved] = write_table(self.path / saved, pack_state(state, recorder))
        if before:
            for stale in (before["living"], before["state"], *before["unfinished"]):
                files.pop(stale, None)
        complete = state.sweep % self.every == 0
        self._write_checkpoint(chain, {
            "sweep": state.sweep,
            "draws": recorder.last_draw + 1,
            "living": living,
            "state": saved,
            "unfinished": [] if complete else [f"{kind}/{span}" for kind in TABLES],
            "parts": files,
        })  # fmt: skip
        self.clean(chain)
        if not complete:
            recorder.put_back(rows)

    def restore(self, chain: int, model: Model) -> tuple[ChainState | None, ChainRecorder]:
        """Take a chain up where its last checkpoint left it."""
        checkpoint = self._checkpoint(chain)
        self.clean(chain)
        if not checkpoint:
            return None, ChainRecorder(chain, model.order)
        table = read_table(
            self.path / checkpoint["state"], checkpoint["parts"][checkpoint["state"]], STATE
        )
        state, recorder = unpack_state(table, checkpoint, chain, model)
        if checkpoint["unfinished"]:
            read = {
                name.split("/")[0]: read_table(self.path / name, checkpoint["parts"][name])
                for name in checkpoint["unfinished"]
            }
            recorder.put_back(Rows(**read))
        return state, recorder

    def clean(self, chain: int) -> None:
        """Remove what an interruption left behind and what newer files replace."""
        checkpoint = self._checkpoint(chain)
        listed = set(checkpoint["parts"]) if checkpoint else set()
        for kind in [*TABLES, "checkpoints"]:
            for path in (self.path / kind).glob(f"chain-{chain}-*.parquet"):
                if f"{kind}/{path.name}" not in listed:
                    path.unlink()
            for path in (self.path / kind).glob(f".chain-{chain}[-.]*.unfinished"):
                path.unlink()

    def draws_done(self) -> list[int]:
        """Committed draws of each chain."""
        checkpoints = [self._checkpoint(chain) for chain in range(self.settings.chains)]
        return [int(part["draws"]) if part else 0 for part in checkpoints]

    # -- reading -----------------------------------------------------------------------------

    def read(self, kind: str) -> pa.Table:
        """All committed rows of `lifetimes`, `draws` or `timings`."""
        tables = [TABLES[kind].empty_table()]
        for chain in range(self.settings.chains):
            checkpoint = self._checkpoint(chain)
            for name, receipt in sorted((checkpoint or {"parts": {}})["parts"].items()):
                if name.startswith(f"{kind}/"):
                    tables.append(read_table(self.path / name, receipt, TABLES[kind]))
        return pa.concat_tables(tables)

    def lifetimes(self) -> Lifetimes:
        """All lifetimes, checked."""
        return Lifetimes.from_tables(
            [self.read("lifetimes")],
            records=int(self.content["records"]),
            chains=self.settings.chains,
            draws=self.draws_done(),
        )

    # -- checkpoints -------------------------------------------------------------------------

    def _checkpoint(self, chain: int) -> dict[str, Any] | None:
        path = self.path / "checkpoints" / f"chain-{chain}.json"
        if not path.exists():
            return None
        checkpoint = read_json(path)
        missing = {"sweep", "draws", "living", "state", "unfinished", "parts"} - set(checkpoint)
        if missing:
            raise RunError(f"{path} is damaged: it lacks {', '.join(sorted(missing))}")
        for name in checkpoint["parts"]:
            if Path(name).is_absolute() or ".." in Path(name).parts:
                raise RunError(f"{path} is damaged: it names a file outside the run folder")
        return checkpoint

    def _write_checkpoint(self, chain: int, content: Mapping[str, Any]) -> None:
        write_json(self.path / "checkpoints" / f"chain-{chain}.json", content)


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
    table: pa.Table, checkpoint: Mapping[str, Any], chain: int, model: Model
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
    if (entity < 0).any() or (entity > np.arange(n)).any():
        raise RunError(f"the checkpoint of chain {chain} is damaged: entity is no linkage")
    state = ChainState(
        sweep=int(checkpoint["sweep"]),
        entity=entity,
        entities=int((entity == np.arange(n)).sum()),
        theta=array("theta", np.float64, levels),
        beta=array("beta", np.float64, *rates),
        hyperparameters=array("hyperparameters", np.float64, len(model.prior.hyperparameters)),
        level_counts=array("level_counts", np.int64, levels),
        distorted=array("distorted", np.int64, *rates),
    )
    started = int(checkpoint["draws"]) > 0
    recorder = ChainRecorder(
        chain,
        model.order,
        array("entity_at_last_draw", np.int32, n if started else 0),
        array("born", np.int32, n),
        array("moves", np.int64, len(MOVES)),
    )
    recorder.last_draw = int(checkpoint["draws"]) - 1
    return state, recorder
