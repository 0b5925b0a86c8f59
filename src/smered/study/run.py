"""Running a study: every cell once, whatever interrupts it, then the tables, figures and page."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

import smered
from smered.errors import ConfigError
from smered.report.figures import blank
from smered.store.disk import read_json, write_json, write_text
from smered.study.cells import SIZES, Cell, cells, run_cell
from smered.study.figures import draw_figures
from smered.study.page import load_template, write_page
from smered.study.tables import make_tables, write_tables

__all__ = ["run_study"]

STUDY, RUNS = "study.json", "runs"


def run_study(
    folder: Path,
    *,
    size: str,
    seed: int,
    threads: int,
    console: Console,
    quiet: bool,
    replace: bool = False,
) -> Path:
    """Run what is not yet done of a study, then write its tables, figures and page.

    `replace` forgets the runs of a study that the folder holds already.
    """
    blank()  # fail now, not after hours, where a package for figures or the page is missing
    load_template()
    identity = {"smered": smered.__version__, "size": size, "seed": seed}
    if replace and (folder / STUDY).exists():
        shutil.rmtree(folder / RUNS, ignore_errors=True)
        write_json(folder / STUDY, identity)
    claim(folder, identity)
    planned = list(cells(SIZES[size], seed))
    results: dict[str, Any] = {}
    with Progress(
        TextColumn("{task.description}"), BarColumn(bar_width=20), MofNCompleteColumn(),
        TimeElapsedColumn(), console=console, disable=quiet or not console.is_terminal,
    ) as bar:  # fmt: skip
        task = bar.add_task("", total=len(planned))
        for cell in planned:
            bar.update(task, description=f"{cell.part}: {cell.name}")
            results[cell.name] = result_of(cell, folder, threads)
            bar.advance(task)
    tables = make_tables(results)
    write_tables(tables, folder / "tables")
    draw_figures(results, folder / "figures")
    write_text(folder / "study.md", write_page(results, tables, size))
    return folder / "study.md"


def claim(folder: Path, identity: dict[str, Any]) -> None:
    """Make the folder this study's, or find that it is already."""
    if folder.exists() and not folder.is_dir():
        raise ConfigError(f"{folder} is a file; choose another folder")
    if not folder.exists() or not any(folder.iterdir()):
        write_json(folder / STUDY, identity)
        return
    if not (folder / STUDY).exists():
        raise ConfigError(f"{folder} exists already and holds no study; choose another folder")
    before = read_json(folder / STUDY)
    if before != identity:
        raise ConfigError(
            f"{folder} holds another study ({before['size']}, seed {before['seed']}, smered "
            f"{before['smered']}); choose another folder, or --force to begin anew"
        )


def result_of(cell: Cell, folder: Path, threads: int) -> dict[str, Any]:
    """What a cell found, now or before."""
    path = folder / RUNS / f"{re.sub(r'[^A-Za-z0-9.]+', '-', cell.name).strip('-')}.json"
    if path.exists():
        before = read_json(path)
        if before["cell"] == json.loads(json.dumps(cell.settings())):
            return before
    found = json.loads(json.dumps(run_cell(cell, threads)))  # as it will be read again
    write_json(path, found)
    return found
