"""Parts: runs of neighbouring records, the pieces in which a chain's linkage is kept.

A part keeps the clusters whose first record is in it. Parts end where blocks end, unless blocks
rotate: then a cluster may reach into other parts. They depend on the records alone, so that a run
has the same files wherever it runs, and can go on elsewhere.
"""

from typing import NamedTuple

import numpy as np

from smered.layout import Int64s, Layout

__all__ = ["RECORDS_PER_PART", "Cuts", "cut_records"]

RECORDS_PER_PART = 250_000


class Cuts(NamedTuple):
    """Where parts begin, in kernel order, and where the last one ends (parts + 1,)."""

    record: Int64s
    candidate: Int64s

    @classmethod
    def of(cls, layout: Layout, record: Int64s) -> "Cuts":
        """The cuts of a layout whose records are cut like this."""
        return cls(record, layout.candidate_start[record])

    @property
    def parts(self) -> int:
        """How many there are."""
        return len(self.record) - 1


def cut_records(block_sizes: Int64s, parts: int | None = None, *, anywhere: bool = False) -> Int64s:
    """Cut the records, in kernel order, between blocks: into so many parts of about one size.

    With `anywhere`, parts may end within blocks.
    """
    end = np.cumsum(block_sizes)
    wanted = parts or -(-int(end[-1]) // RECORDS_PER_PART)
    ideal = end[-1] * np.arange(1, wanted) / wanted
    # else the first end of a block that is not before
    cuts = np.ceil(ideal) if anywhere else end[np.searchsorted(end, ideal)]
    return np.unique(np.concatenate(([0], cuts, [end[-1]]))).astype(np.int64)
