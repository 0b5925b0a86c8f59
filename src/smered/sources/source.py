"""What every source gives."""

from typing import NamedTuple

import pyarrow as pa

__all__ = ["Source"]


class Source(NamedTuple):
    """One table, and how it was read; `label` may be shown anywhere: it holds no password."""

    name: str
    label: str
    how: str  # such as "CSV, UTF-8, comma"
    table: pa.Table
    notes: tuple[str, ...] = ()  # what a user should know
