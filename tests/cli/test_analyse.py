"""What follows a linkage: imputations, regressions, the size of the population."""

import json

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest

from tests.cli.program import QUICK


@pytest.fixture
def run(smered_, files, tmp_path):
    """A run of three files; the first has a score, the second a count."""
    for path, name in zip(files, ("score", "visits", "score"), strict=True):
        table = pa_csv.read_csv(path)
        values = pa.array([i * 37 % 11 for i in range(len(table))])
        pa_csv.write_csv(table.append_column(name, values), path)
    flags = ["--id", "id", "--truth", "entity", "--no-duplicates"]
    for name in ("score", "visits", "note"):
        flags += ["--ignore", name]
    found = smered_("link", *files, *flags, *QUICK, "--out", "run", "--quiet")
    assert found.code == 0, found.err
    return tmp_path / "run"


def test_export_imputations(smered_, run, tmp_path):
    found = smered_("export", run, "--imputations", 6, "--format", "parquet", "--out", "sets")
    assert found.code == 0, found.err
    assert found.out.split() == ["sets/imputations.parquet"]
    table = pq.read_table(tmp_path / "sets" / "imputations.parquet")
    assert set(table["imputation"].to_pylist()) == set(range(7))
    assert {"score_a", "score_c", "visits", "id_b", "match_probability"} <= set(table.column_names)
    assert not (tmp_path / "sets" / "linked.parquet").exists()
    found = smered_(
        "export", run, "--imputations", 2, "--layout", "long", "--format", "csv", "--out", "sets2"
    )
    rows = pa_csv.read_csv(tmp_path / "sets2" / "imputations.csv")
    assert rows["note"].to_pylist()[0].startswith("'=cmd")  # no formula for a spreadsheet
    for flags, message in [
        (["--imputations", 1000], "1000 draws asked for, but the run has 40"),
        (["--imputations", 2, "--layout", "tall"], "--layout tall: "),
    ]:
        found = smered_("export", run, *flags, "--out", "none")
        assert found.code == 2
        assert message in found.err
        assert not (tmp_path / "none").exists()


def test_regress(smered_, run):
    found = smered_("regress", run, "")
    assert "match_probability" in found.out
    assert "score_a" in found.out
    found = smered_("regress", run, "visits ~ score_a + year", "--draws", 20, "--json")
    assert found.code == 0, found.err
    terms = json.loads(found.out)["terms"]
    assert [row["term"] for row in terms] == ["Intercept", "score_a", "year"]
    assert all(row["lower"] < row["estimate"] < row["upper"] for row in terms)
    found = smered_("regress", run, "visits ~ score_a", "--kind", "poisson", "--draws", 20)
    assert "due to linkage" in found.out
    for flags, message in [
        (["visits ~ score"], "no column 'score'; did you mean 'score_c'?"),
        (["visits ~ score_a", "--kind", "probit"], "--kind probit"),
        (["visits ~ score_a", "--exposure", "year"], "belongs to --kind poisson"),
        (["visits ~ score_a", "--level", "95"], "between 0 and 1"),
    ]:
        found = smered_("regress", run, *flags)
        assert found.code == 2
        assert message in found.err, found.err


def test_population(smered_, run, tmp_path):
    found = smered_("population", run, "--figures", "figures", "--draws", 20)
    assert found.code == 0, found.err
    for text in ("log-linear models", "Chao's lower bound", "if the linkage were certain"):
        assert text in found.out
    assert (tmp_path / "figures" / "population.png").exists()
    assert (tmp_path / "figures" / "population.svg").exists()
    found = smered_(
        "population", run, "--method", "chapman", "--file", "a", "--file", "b", "--by", "sex",
        "--draws", 20, "--json",
    )  # fmt: skip
    sizes = json.loads(found.out)["sizes"]
    assert [size["stratum"] for size in sizes[::2]] == [None, "0", "1"]
    assert sizes[0]["lower"] <= sizes[0]["estimate"] <= sizes[0]["upper"]
    (tmp_path / "taken").write_text("")
    for flags, message in [
        (["--method", "chapman"], "chapman needs two files, not 3"),
        (["--file", "a"], "choose at least two"),
        (["--by", "sexx"], "no field 'sexx'"),
        (["--figures", "taken"], "taken is a file"),
    ]:
        found = smered_("population", run, *flags)
        assert found.code == 2
        assert message in found.err


def test_population_of_one_file(smered_, files):
    found = smered_("link", files[0], "--ignore", "note", "--id", "id", "--ignore", "entity",
                    *QUICK, "--out", "one", "--quiet")  # fmt: skip
    assert found.code == 0, found.err
    found = smered_("population", "one")
    assert found.code == 2
    assert "needs the overlap of two or more files; the run has one" in found.err
