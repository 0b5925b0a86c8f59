"""Where a sweep runs. Every executor does the same work and gives the same bytes."""

from smered.execute.contract import Executor
from smered.execute.serial import Serial
from smered.execute.threads import Threads
from smered.layout import Layout
from smered.model import Model

__all__ = ["Executor", "Serial", "Threads", "make_executor"]


def make_executor(model: Model, layout: Layout, threads: int) -> Serial:
    """Choose the executor for a number of threads."""
    return Serial(model, layout) if threads <= 1 else Threads(model, layout, threads)
