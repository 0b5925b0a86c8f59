"""Progress bars: of sampling, with throughput, entities and acceptance, and of other work."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from smered.sampler import Settings, Step

__all__ = ["SamplingProgress", "counting"]


class SamplingProgress:
    """Shows how far all chains are; silent when the output is not a terminal."""

    def __init__(self, settings: Settings, records: int, console: Console, quiet: bool) -> None:
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=8),
            TextColumn("{task.percentage:>3.0f}%  {task.fields[state]}"),
            TimeRemainingColumn(compact=True, elapsed_when_finished=True),
            console=console,
            transient=True,
            disable=quiet or not console.is_terminal,
        )
        total = settings.chains * settings.sweeps
        self._task = self._bar.add_task(f"{records:,} records", total=total, state="compiling")
        self._guard = threading.Lock()
        self._proposed = self._accepted = 0
        self._started = 0.0

    def __enter__(self) -> "SamplingProgress":
        self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bar.stop()

    def __call__(self, step: Step) -> None:
        """Take note of a sweep of any chain."""
        with self._guard:
            now = time.perf_counter()
            if not self._started:
                self._started = now  # the first sweep holds the time to compile
            else:
                self._proposed += int(step.moves[::2].sum())
                self._accepted += int(step.moves[1::2].sum())
            rate = self._proposed / max(now - self._started, 1e-9) / 1e6
            share = self._accepted / max(self._proposed, 1)
            state = f"{rate:.1f}M proposals/s, N {step.state.entities:,}, accepted {share:.1%}"
            self._bar.update(self._task, advance=1, state=state)


@contextmanager
def counting(what: str, total: int, *, show: bool) -> Iterator[Callable[[], None]]:
    """A progress bar for work that is done piece by piece; silent where there is no terminal."""
    console = Console(stderr=True)
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=20),
        TextColumn("{task.completed} of {task.total}"),
        TimeRemainingColumn(compact=True, elapsed_when_finished=True),
        console=console,
        transient=True,
        disable=not show or not (console.is_terminal or console.is_jupyter),
    ) as bar:
        task = bar.add_task(what, total=total)
        yield lambda: bar.advance(task)
