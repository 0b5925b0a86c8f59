"""Files to link, and the program to link them with."""

import pyarrow.csv as pa_csv
import pytest

import smered
from tests.cli import program


@pytest.fixture
def smered_(capsys, monkeypatch, tmp_path):
    """The program, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    return lambda *arguments: program.run(capsys, monkeypatch, *arguments)


@pytest.fixture(scope="session")
def simulation():
    return smered.simulate.simulate(
        {("a",): 15, ("b",): 10, ("a", "b"): 25, ("a", "b", "c"): 20},
        {"sex": 2, "day": 31, "year": 40, "town": 25},
        distortion=0.02,
        missing=0.02,
        seed=11,
    )


@pytest.fixture
def files(simulation, tmp_path):
    """Three CSV files: id, entity (the truth), four fields, a note that looks like a formula."""
    for name, table in simulation.tables.items():
        notes = [f"=cmd{i}" for i in range(len(table))]
        pa_csv.write_csv(table.append_column("note", [notes]), tmp_path / f"{name}.csv")
    return [str(tmp_path / f"{name}.csv") for name in simulation.tables]
