"""What commands share: where they print, and which run they are at."""

import json
import sys
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from rich.console import Console

__all__ = ["is_new", "is_quiet", "print_json", "run_in_use", "screen", "use_run"]

RUN: ContextVar[Path | None] = ContextVar("run", default=None)
QUIET: ContextVar[bool] = ContextVar("quiet", default=False)
SAID: ContextVar[frozenset[str]] = ContextVar("said", default=frozenset())
WIDE = 1000  # columns where the output is a file, so that nothing is cut or broken


def screen(*, json: bool, quiet: bool) -> Console:
    """Where words go: the terminal, or standard error if standard output is for JSON."""
    QUIET.set(quiet)
    file = sys.stderr if json else sys.stdout
    width = None if file.isatty() else WIDE
    return Console(file=file, quiet=quiet, width=width, highlight=False, emoji=False)


def is_quiet() -> bool:
    """Whether the command was told to print errors only."""
    return QUIET.get()


def is_new(note: str) -> bool:
    """Whether a note has not been shown yet; it counts as shown from now on."""
    said = SAID.get()
    SAID.set(said | {note})
    return note not in said


def print_json(content: Any) -> None:
    """Print one JSON document."""
    print(json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False))


def use_run(folder: Path) -> Path:
    """Remember the run that a command is at, for its log."""
    RUN.set(folder)
    return folder


def run_in_use() -> Path | None:
    """The run that the command is at."""
    return RUN.get()
