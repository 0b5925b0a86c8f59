"""Who writes the records of a new run: this process, or a cluster that never had them together."""

from pathlib import Path
from typing import Any, Protocol

from smered.layout import Int64s
from smered.model import Model
from smered.store.records import fingerprints, write_records

__all__ = ["Keeper", "RecordsKeeper"]


class Keeper(Protocol):
    """Writes the records of a new run."""

    def check(self, path: Path) -> None:
        """Refuse a folder that holds what is still to be read: a run in it may be replaced."""
        ...

    def fingerprints(self) -> dict[str, dict[str, Any]]:
        """Number of records of each file, and a checksum of their ids and values."""
        ...

    def write(self, path: Path, cuts: Int64s) -> dict[str, dict[str, Any]]:
        """Write the records, cut into parts; return receipts by name."""
        ...


class RecordsKeeper:
    """Writes records that are in this process."""

    def __init__(self, model: Model) -> None:
        self._model = model

    def check(self, path: Path) -> None:
        """Everything was read."""

    def fingerprints(self) -> dict[str, dict[str, Any]]:
        """Number of records of each file, and a checksum of their ids and values."""
        return fingerprints(self._model.records)

    def write(self, path: Path, cuts: Int64s) -> dict[str, dict[str, Any]]:
        """Write the records, cut into parts; return receipts by name."""
        model = self._model
        return write_records(path, model.records, model.coded, model.order, cuts)
