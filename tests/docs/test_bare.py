"""Every line of the README works in what a plain installation holds."""

import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

import smered
from smered.store.disk import write_csv
from tests.docs.test_docs import blocks

ROOT = Path(__file__).parents[2]


def run(*command, **settings):
    return subprocess.run(command, capture_output=True, text=True, check=False, **settings)


@pytest.fixture(scope="module")
def bare(tmp_path_factory):
    """A fresh environment with the wheel and what it depends on, and nothing else."""
    folder = tmp_path_factory.mktemp("bare")
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check")
    built = run(*pip, "wheel", "--quiet", "--no-deps", "--wheel-dir", folder, ROOT)
    assert built.returncode == 0, built.stderr
    (wheel,) = folder.glob("smered-*.whl")
    venv.create(folder / "env", with_pip=True)
    python = folder / "env" / "bin" / "python"
    installed = run(python, "-m", "pip", "install", "--quiet", wheel)
    if installed.returncode:
        pytest.skip(f"packages could not be installed: {installed.stderr[-300:]}")
    return python.parent


def test_the_readme(bare, tmp_path):
    for name, table in smered.simulate.survey(share=0.03).tables.items():
        write_csv(tmp_path / f"{name}.csv", table.drop_columns(["entity"]))
    environment = {"PATH": f"{bare}:{os.environ['PATH']}", "HOME": str(tmp_path)}
    commands = next(block for block in blocks("README.md", "") if "smered init" in block)
    done = run("bash", "-euo", "pipefail", "-c", commands, cwd=tmp_path, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "linkage" / "report.html").stat().st_size > 100_000
    code = "\n".join(blocks("README.md", "python")).replace("share=0.1", "share=0.03")
    done = run(bare / "python", "-W", "ignore", "-c", code, cwd=tmp_path, env=environment)
    assert done.returncode == 0, done.stderr


def test_extras_that_are_missing_are_named(bare, tmp_path):
    """With the command that installs them."""
    link = "import smered; smered.link('x', ['f'], {})"
    for call, extra in {
        "execute='ray', out='run'": "ray",
    }.items():
        code = link.format(call)
        done = run(bare / "python", "-c", code, cwd=tmp_path)
        assert f"smered[{extra}]" in done.stderr, done.stderr
    done = run(bare / "smered", "link", "duckdb:x.db?t", cwd=tmp_path)
    assert done.returncode == 2
    assert "smered[databases]" in done.stderr
    done = run(bare / "smered", "link", "s3x://bucket/a.parquet", cwd=tmp_path)
    assert done.returncode == 2, done.stderr
