"""Where a run folder may be made, and what a run that is replaced leaves behind."""

import os
import re
import shutil
from collections.abc import Sequence
from pathlib import Path

from smered.errors import ConfigError, RunError
from smered.store.disk import read_json

__all__ = ["LOCK", "LOG", "RUN", "check_target", "remove_run"]

RUN, LOCK, LOG = "run.json", "lock", "smered.log"
OUTPUTS = [f"{table}.{kind}" for table in ("linked", "entities", "pairs")
           for kind in ("csv", "parquet")]  # fmt: skip
OUTPUTS += ["summary.json", "report.html", "report-masked.html", LOG]
BEGUN = re.compile(r"\.?(part-\d+|levels|neighbours|input-\d+)\.parquet(\.unfinished)?")


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


def holds_something(path: Path) -> bool:
    """Whether a folder holds more than what a run that never began leaves."""
    leftovers = [LOG, LOCK, f".{RUN}.unfinished"]
    if begun(path / "records") and not (path / RUN).exists():
        leftovers.append("records")
    return path.is_dir() and any(entry.name not in leftovers for entry in path.iterdir())


def begun(records: Path) -> bool:
    """Whether a folder holds records that a run was about to keep, and nothing else."""
    return records.is_dir() and all(BEGUN.fullmatch(entry.name) for entry in records.iterdir())


def is_run(path: Path) -> bool:
    """Whether a folder holds a run of ours."""
    try:
        return {"format", "checkpoint_every"} <= read_json(path / RUN).keys()
    except RunError:
        return False


def remove_run(path: Path, folders: Sequence[str]) -> None:
    """Remove what a run, in these folders, and its outputs left in a folder, and nothing else."""
    for name in folders:
        shutil.rmtree(path / name, ignore_errors=True)
    for name in (*OUTPUTS, RUN):
        (path / name).unlink(missing_ok=True)
