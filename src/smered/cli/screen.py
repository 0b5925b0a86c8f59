"""What commands share: where they print, and which run they are at."""

import json
import sys
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from rich.console import Console

__all__ = ["print_json", "run_in_use", "screen", "use_run"]

RUN: ContextVar[Path | None] = ContextVar("run", default=None)
WIDE = 160  # columns where the output is a file, so that no table is cut


def screen(*, json: bool, quiet: bool) -> Console:
    """Where words go: the terminal, or standard error if standard output is for JSON."""
    file = sys.stderr if json else sys.stdout
    width = None if file.isatty() else WIDE
    return Console(file=file, quiet=quiet, width=width, highlight=False, soft_wrap=False)


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
