"""Where a sweep runs. Every executor does the same work and gives the same bytes."""

from smered.execute.contract import Executor
from smered.execute.serial import Serial
from smered.execute.threads import Threads
from smered.labels import Groups
from smered.layout import Layout
from smered.model import Model

__all__ = ["Executor", "Serial", "Threads", "make_executor"]


def make_executor(
    model: Model, layout: Layout, threads: int, groups: Groups | None = None
) -> Serial:
    """Choose the executor for a number of threads; see `Serial`."""
    if threads <= 1:
        return Serial(model, layout, groups=groups)
    return Threads(model, layout, threads, groups)
