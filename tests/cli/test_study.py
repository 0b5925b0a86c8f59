"""The study: complete, resumable, the same again; its findings on a small scale."""

import json

import pytest
from rich.console import Console
from typer.testing import CliRunner

from smered.cli import app
from smered.errors import ConfigError
from smered.simulate import survey
from smered.study import cells, run
from smered.study.tables import burn_in_needed

TINY = cells.Size(0.02, 0.01, 1, 1, 10, 12, 10, 30)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(cells.SIZES, "quick", TINY)
        place = tmp_path_factory.mktemp("study") / "study"
        done = CliRunner().invoke(app, ["study", "--quick", "--out", str(place), "--threads", "2"])
        assert done.exit_code == 0, (done.output, done.exception)
        yield place


def again(folder, **settings):
    usual = {"size": "quick", "seed": 0, "threads": 1, "quiet": True}
    return run.run_study(folder, console=Console(), **usual | settings)


def test_tables_figures_and_page(folder):
    tables = {path.stem: json.loads(path.read_text()) for path in folder.glob("tables/*.json")}
    assert {path.stem for path in folder.glob("tables/*.csv")} == set(tables)
    assert [row["distortion"] for row in tables["simulation"]] == list(cells.DISTORTIONS)
    assert [row["run"] for row in tables["application"][::2]] == [
        "SMERE", "SMERED", "combined", "equal records linked",
    ]  # fmt: skip
    smere = tables["application"][0]
    assert smere["within_waves"] == 0
    assert smere["true"] + smere["missing"] == pytest.approx(566, abs=5)
    assert tables["application"][2]["within_waves"] > 0
    assert len(tables["sensitivity"]) == 17
    assert sum(row["pairs"] for row in tables["differing"]) == pytest.approx(566, abs=5)
    page = (folder / "study.md").read_text()
    for drawn in folder.glob("figures/*.svg"):
        assert f"figures/{drawn.name}" in page
        assert drawn.with_suffix(".png").exists()
    assert page.count("figures/") == len(list(folder.glob("figures/*.svg")))


def test_distortion_hurts(folder):
    rows = json.loads((folder / "tables" / "simulation.json").read_text())
    assert rows[-1]["fnr"] > rows[0]["fnr"]
    assert rows[-1]["fnr"] >= rows[-1]["split_by_blocks"] > 0
    assert rows[0]["split_by_blocks"] == 0
    assert rows[0]["recovered"] > rows[-1]["recovered"]


def test_a_study_goes_on_where_it_was(folder, monkeypatch):
    lost = folder / "runs" / "SMERED.json"
    before, page = json.loads(lost.read_text()), (folder / "study.md").read_text()
    lost.unlink()
    made = []
    usual = cells.run_cell
    monkeypatch.setattr(run, "run_cell", lambda cell, threads: made.append(cell.name) or
                        usual(cell, threads))  # fmt: skip
    again(folder)
    assert made == ["SMERED"]
    after = json.loads(lost.read_text())
    assert after["evaluation"] == before["evaluation"]  # the same bytes on one thread
    assert after["traces"] == before["traces"]
    assert len((folder / "study.md").read_text().splitlines()) == len(page.splitlines())


def test_an_interrupted_run_is_no_result(folder, monkeypatch):
    lost = folder / "runs" / "SMERE.json"
    lost.rename(lost.with_suffix(".kept"))
    usual = cells.sample
    monkeypatch.setattr(
        cells, "sample", lambda model, **settings: usual(model, **settings | {"draws": 8})
    )
    done = CliRunner().invoke(app, ["study", "--quick", "--out", str(folder)])
    assert done.exit_code == 130
    assert not lost.exists()
    lost.with_suffix(".kept").rename(lost)


def test_a_result_of_other_settings_is_made_anew(folder, monkeypatch):
    path = folder / "runs" / "SMERE.json"
    content = json.loads(path.read_text())
    path.write_text(json.dumps(content | {"cell": content["cell"] | {"draws": 7}}))
    made = []
    monkeypatch.setattr(run, "run_cell", lambda cell, _: made.append(cell.name) or content)
    again(folder)
    assert made == ["SMERE"]


def test_another_study_is_not_mixed_in(folder, tmp_path):
    with pytest.raises(ConfigError, match="holds another study"):
        again(folder, seed=1)
    with pytest.raises(ConfigError, match="is a file"):
        again(folder / "study.md")
    (tmp_path / "thesis.doc").write_text("precious")
    with pytest.raises(ConfigError, match="holds no study"):
        again(tmp_path)
    assert (tmp_path / "thesis.doc").read_text() == "precious"


def test_the_survey_can_be_distorted_evenly():
    plain = survey(3, distortion=0.0, share=0.05)
    assert len(plain.truth) == pytest.approx(57_077 * 0.05, abs=10)
    rows = {}
    for table in plain.tables.values():
        for row in table.drop_columns(["id"]).to_pylist():
            person = row.pop("entity")
            assert rows.setdefault(person, row) == row  # nobody moves, nothing is distorted
    noisy = survey(3, distortion=0.2, share=0.05)
    for name in plain.fields:
        pairs = [
            (row[name], rows[row["entity"]][name])
            for table in noisy.tables.values()
            for row in table.to_pylist()
        ]
        differ = sum(a != b for a, b in pairs) / len(pairs)
        assert 0.08 < differ < 0.22
    with pytest.raises(ConfigError):
        survey(share=0.0)


def test_independent_fields_keep_their_distributions():
    one, two = survey(1, share=0.1, distortion=0.0), survey(1, share=0.1, distortion=0.0,
                                                            independent=True)  # fmt: skip

    def offices_by_state(data):
        table = data.tables["1982"]
        states, offices = table["state"].to_pylist(), table["office"].to_pylist()
        return len(set(zip(states, offices, strict=True)))

    assert offices_by_state(two) > 2 * offices_by_state(one)


def test_burn_in_is_long_enough():
    assert burn_in_needed([100] * 40 + [50] * 100, 50, 1) == 40
    assert burn_in_needed([50] * 19 + [80] + [50] * 50, 50, 1) == 20
    assert burn_in_needed([80] * 50, 50, 1) == 50
