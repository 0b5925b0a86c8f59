"""The program as tests run it: in this process, or as a process of its own."""

import contextvars
import subprocess
import sys
import warnings
from pathlib import Path
from typing import NamedTuple

from smered import cli

SMERED = str(Path(sys.executable).parent / "smered")
QUICK = ["--draws", "20", "--burn-in", "10", "--chains", "2", "--threads", "1"]


class Result(NamedTuple):
    code: int
    out: str
    err: str


def run(capsys, monkeypatch, *arguments):
    """Run the program in this process."""
    capsys.readouterr()
    monkeypatch.setattr(sys, "argv", ["smered", *map(str, arguments)])
    code = 0
    with warnings.catch_warnings():
        warnings.simplefilter("default")  # as outside of tests
        try:
            contextvars.copy_context().run(cli.main)  # as in a process of its own
        except SystemExit as stop:
            code = stop.code or 0
    captured = capsys.readouterr()
    return Result(code, captured.out, captured.err)


def process(*arguments, **settings):
    """Run the program as a process of its own."""
    result = subprocess.run(
        [SMERED, *map(str, arguments)], capture_output=True, text=True, check=False, **settings
    )
    return Result(result.returncode, result.stdout, result.stderr)
