"""What every source gives."""

from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

__all__ = ["Source", "file_name"]


class Source(NamedTuple):
    """One table, and how it was read; `label` may be shown anywhere: it holds no password."""

    name: str
    label: str
    how: str  # such as "CSV, UTF-8, comma"
    table: pa.Table
    notes: tuple[str, ...] = ()  # what a user should know

    @property
    def rows(self) -> int:
        """How many there are."""
        return len(self.table)


def file_name(path: Path) -> str:
    """What a file is called in the linkage: its name without endings."""
    return path.name.lstrip(".").split(".")[0] or path.name
