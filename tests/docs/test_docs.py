"""Code in the documentation runs."""

import os
import re
import subprocess
import sys
import warnings
from pathlib import Path

import duckdb
import pyarrow.parquet as pq
import pytest

import smered
from smered import run as run_module
from smered.config import load_config

ROOT = Path(__file__).parents[2]


def blocks(page, language):
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)


def execute(code, names):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", smered.ConvergenceWarning)
        exec(compile(code, "documentation", "exec"), names)


def shell(page, folder, *, together=False):
    """Run the shell commands of a page, one block after the other; return what they printed.

    `together`: in one shell, so that a folder that one block enters is where the next begins.
    """
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    printed = ""
    found = blocks(page, "sh")
    for commands in ["\n".join(found)] if together else found:
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", commands], cwd=folder, text=True, check=False,
            env=os.environ | {"PATH": path}, capture_output=True,
        )  # fmt: skip
        assert done.returncode == 0, (commands, done.stderr)
        printed += done.stdout
    return printed


def test_tutorial(tmp_path):
    printed = shell("docs/tutorial.md", tmp_path)
    linked = pq.read_table(tmp_path / "people" / "linkage" / "linked.parquet")
    assert len(linked) == 530
    for text in ("Entities by the files that hold them", "matching set", "FNR", "530 records"):
        assert text in printed, text
    assert (tmp_path / "people" / "figures" / "confusion.png").exists()


HOW_TO = sorted(path.name for path in (ROOT / "docs" / "how-to").iterdir())


@pytest.mark.parametrize("page", HOW_TO)
def test_how_to(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shell(f"docs/how-to/{page}", tmp_path, together=True)
    if (tmp_path / "people").exists():
        monkeypatch.chdir(tmp_path / "people")  # where the commands ended
    names = {}
    for code in blocks(f"docs/how-to/{page}", "python"):
        execute(code, names)
    if page == "blocks.md":
        rates = [links.fnr for links in names["found"].values()]
        assert rates[2] > rates[0] + 0.1  # a town is a bad block
    if page == "linked-data.md":
        sets = names["posterior"].imputations(20, columns=["income", "year", "match_probability"])
        pooled = smered.propagate.pool([smered.propagate.linear("income ~ year")(t) for t in sets])
        assert names["results"].params == pytest.approx(pooled.estimate)
        assert names["results"].bse == pytest.approx(pooled.std_error)
        assert 100 < pooled.estimate[1] < 700  # 400 a year
    if page == "population.md":
        truth = 1000
        size = names["found"]["loglinear"]
        assert size.lower < truth < size.upper
    if page == "report.md":
        masked = tmp_path / "people" / "linkage" / "report-masked.html"
        assert "Field values are left out" in masked.read_text()
        assert sum(names["posterior"].evidence(*names["members"]).values()) != 0


def test_the_site_is_built(tmp_path):
    """Strictly: every link and every name in the reference exists."""
    built = tmp_path / "site"
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(built)],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    reference = (built / "api.html").read_text()
    for name in ("matching_sets", "RotatingBlocks", "b_cubed", "write_report"):
        assert name in reference
    assert (built / "study.html").exists()
    pages = [path.read_text() for path in built.rglob("*.html")]
    assert not any(re.search(r'(src|href)="https?://[^"]*\.(js|css)"', page) for page in pages)


def test_the_example_of_link_toml_is_valid(tmp_path):
    (text,) = blocks("docs/command-line.md", "toml")
    (tmp_path / "link.toml").write_text(text)
    found = load_config(tmp_path / "link.toml")
    assert found.fields["place"].columns == ["state", "office"]
    assert found.data.duplicates == {"1982": False}


def test_python(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names = {}
    for code in blocks("docs/python.md", "python"):
        execute(code, names)
    assert len(names["linked"]) == len(names["data"].truth)
    assert names["posterior"].draws == 600
    written = sorted(path.suffix for path in tmp_path.iterdir() if path.is_file())
    assert written == [".html"] + [".png"] * 6
    found = names["links"](names["estimate"].entity, names["data"].truth)
    assert found.f1 > 0.9
    assert "95% interval" in capsys.readouterr().out


def test_readme(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    whole = run_module.link

    def short(*arguments, **settings):
        return whole(*arguments, **({"draws": 4, "burn_in": 2, "chains": 1} | settings))

    monkeypatch.setattr(run_module, "link", short)
    names = {}
    for code in blocks("README.md", "python"):
        execute(code, names)
    assert len(names["posterior"].records) == 5_706


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    data = smered.simulate.simulate({("a",): 20, ("a", "b"): 30}, [9, 8, 7], seed=3)
    return smered.link(data.tables, data.fields, id="id", draws=30, chains=2, out="run")


def test_queries_of_the_run_folder(run):
    entities, sets = blocks("docs/run-folder.md", "sql")
    rows = duckdb.sql(entities).fetchall()
    expected = run.entities().draws
    assert [row[1] for row in rows] == pytest.approx(expected.mean(axis=1))
    found = duckdb.sql(sets).fetchall()
    assert {tuple(members): p for members, p in found} == pytest.approx(
        dict(run.matching_sets(("a", 3)))
    )
    (code,) = blocks("docs/run-folder.md", "python")
    names = {}
    execute(code, names)
    got = {(a, b): p for a, b, p in names["pairs"].iter_rows()}
    table = run.pairs(1e-9).to_pydict()
    pairs = zip(table["record_a"], table["record_b"], strict=True)
    assert got == pytest.approx(dict(zip(pairs, table["probability"], strict=True)))
