"""Input that is odd but legal, and runs that meet what was there before."""

import csv
import json
import sqlite3
import subprocess
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from smered.config import load_config
from smered.store.folder import RunFolder
from tests.cli.program import QUICK, SMERED

PEOPLE = "id,name,sex\n" + "".join(f"{i},n{i % 7},{'fm'[i % 2]}\n" for i in range(1, 31))


@pytest.fixture
def people(tmp_path):
    (tmp_path / "people.csv").write_text(PEOPLE)
    return "people.csv"


def rows(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def done(result):
    assert result.code == 0, result.err
    return result


def test_force_removes_the_run_and_nothing_else(smered_, people, tmp_path):
    done(smered_("link", people, "--id", "id", *QUICK, "--out", "run"))
    (tmp_path / "run" / "notes.txt").write_text("mine")
    done(
        smered_("link", people, "--id", "id", *QUICK, "--out", "run", "--format", "csv", "--force")
    )
    assert (tmp_path / "run" / "notes.txt").read_text() == "mine"
    assert not (tmp_path / "run" / "linked.parquet").exists()
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "run.json").write_text('{"npm": 1}')
    refused = smered_("link", people, "--id", "id", *QUICK, "--out", "other", "--force")
    assert (refused.code, "exists already" in refused.err) == (2, True)
    (tmp_path / "link").symlink_to(tmp_path / "run")
    done(smered_("link", people, "--id", "id", *QUICK, "--out", "link", "--force"))
    assert (tmp_path / "run" / "notes.txt").exists()


def test_two_at_once(people, tmp_path):
    command = [SMERED, "link", people, "--id", "id", *QUICK, "--out", "run", "--quiet"]
    both = [subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
            for _ in range(2)]  # fmt: skip
    errors = [process.communicate()[1] for process in both]
    codes = sorted(process.returncode for process in both)
    assert codes == [0, 2], errors
    assert len(rows(tmp_path / "run" / "linked.csv")) == 30


def test_parquet_of_any_type(smered_, tmp_path):
    n = 12
    table = pa.table({
        "id": pa.array(range(n)),
        "name": pa.array([f"n{i % 4}" for i in range(n)], pa.large_string()),
        "kind": pa.array(["=a", "b"] * (n // 2)).dictionary_encode(),
        "lists": pa.array([[1, 2], None] * (n // 2)),
        "struct": pa.array([{"x": "é"}] * n),
        "view": pa.array(["v"] * n, pa.string_view()),
        "bytes": pa.array([b"\xff\x00"] * n),
        "half": pa.array([0.5] * n, pa.float16()),
        "born": pa.array([0] * n, pa.date32()),
    })  # fmt: skip
    pq.write_table(table.drop_columns(["view", "half"]), tmp_path / "a.parquet")
    with (
        pa.OSFile(str(tmp_path / "b.arrow"), "wb") as sink,
        pa.ipc.new_file(sink, table.schema) as writer,
    ):
        writer.write_table(table)
    ignored = [flag for name in ("lists", "struct", "view", "bytes", "half", "born")
               for flag in ("--ignore", name)]  # fmt: skip
    some = [flag for pair in zip(ignored[::2], ignored[1::2], strict=True)
            if pair[1] not in ("view", "half") for flag in pair]  # fmt: skip
    done(smered_("link", "a.parquet", "--id", "id", *some, *QUICK, "--out", "a"))
    found = rows(tmp_path / "a" / "linked.csv")
    assert found[0]["lists"] == "[1, 2]"
    assert found[0]["struct"] == '{"x": "é"}'
    assert found[0]["bytes"] == "ff00"
    assert found[0]["kind"] == "'=a"
    assert pq.read_table(tmp_path / "a" / "linked.parquet")["lists"][0].as_py() == [1, 2]
    done(smered_("link", "b.arrow", "--id", "id", *ignored, *QUICK, "--out", "b"))
    done(smered_("init", "b.arrow", "--config", "b.toml"))
    refused = smered_("link", "b.arrow", "--id", "id", "--field", "lists", *QUICK, "--out", "c")
    assert (refused.code, "cannot be coded as levels" in refused.err) == (2, True)


def test_parquet_of_polars(smered_, tmp_path):
    pl.DataFrame({"id": range(8), "a": list("xyxyzzxy")}).write_parquet(tmp_path / "p.parquet")
    done(smered_("link", "p.parquet", "--id", "id", *QUICK, "--out", "run"))
    assert rows(tmp_path / "run" / "linked.csv")[0]["a"] == "x"


def test_columns_called_like_ours(smered_, tmp_path):
    names = ["probability", "entity_id", "records", "members", "files", "input_probability", "file"]
    lines = [",".join(["id", *names])] + [
        ",".join([str(i), *(f"{name[0]}{i % 3}" for name in names)]) for i in range(9)
    ]
    (tmp_path / "x.csv").write_text("\n".join(lines))
    done(smered_("link", "x.csv", "--id", "id", *QUICK, "--out", "run"))
    linked, people = rows(tmp_path / "run" / "linked.csv"), rows(tmp_path / "run" / "entities.csv")
    assert linked[1]["entity_id"].startswith("E")
    assert linked[1]["input_entity_id"] == "e1"
    assert {linked[1]["input_probability"], linked[1]["input_input_probability"]} == {"p1", "i1"}
    assert people[0]["entity_id"].startswith("E")
    assert people[0]["members"].startswith("x:")
    assert people[0]["input_members"].startswith("m")


def test_odd_names_survive_init(smered_, tmp_path):
    header = ['"a b"', '"c:exact"', "[bold]d[/bold]", "😀", "'e'", '"q""q"', "é"]
    lines = [",".join(["id", *header])] + [
        ",".join([str(i), *(f"{k}{i % 3}" for k in range(len(header)))]) for i in range(9)
    ]
    (tmp_path / "odd.csv").write_text("\n".join(lines))
    done(smered_("init", "odd.csv"))
    assert set(load_config(tmp_path / "link.toml").fields) == {
        "a b", "c:exact", "[bold]d[/bold]", "😀", "'e'", 'q"q', "é"}  # fmt: skip
    shown = done(smered_("link", "--config", "link.toml", "--dry-run")).out
    assert "[bold]d[/bold]" in shown


def test_places_are_found_from_where_link_toml_lies(smered_, people, tmp_path):
    (tmp_path / "conf").mkdir()
    done(smered_("init", f"P={people}", "--config", "conf/link.toml"))
    assert 'files = ["P=../people.csv"]' in (tmp_path / "conf" / "link.toml").read_text()
    done(smered_("config", "check", "conf/link.toml"))
    with sqlite3.connect(tmp_path / "p.db") as connection:
        connection.execute("CREATE TABLE t AS SELECT 1 AS id, 'x' AS a UNION SELECT 2, 'x' "
                           "UNION SELECT 3, 'y'")  # fmt: skip
    done(smered_("init", "sqlite:p.db?t", "--config", "conf/db.toml"))
    done(smered_("config", "check", "conf/db.toml"))


def test_passwords_stay_secret(smered_, tmp_path):
    for place in ("postgresql://joe:SEC#RET@localhost:9/db?t", "postgresql://joe:SEC/RET@h:9/db?t",
                  "postgresql://joe:SEC?RET@localhost:9/db?t", "mysql://joe:SECRET@h/db?t",
                  "postgresql:host=h password=SECRET?t", "postgresql://joe:SEC[RET@localhost:9/d?t",
                  "postgresql://joe@localhost:9/db?t&password=SECRET"):  # fmt: skip
        result = smered_("link", place, *QUICK)
        assert result.code == 2, result
        assert "SEC" not in result.err + result.out
        assert "RET" not in result.err + result.out


def test_flags_that_set_columns_apart_win_over_link_toml(smered_, people, tmp_path):
    done(smered_("init", people))
    plan = done(smered_("link", "--config", "link.toml", "--ignore", "sex", "--dry-run", "--json"))
    assert [field["name"] for field in json.loads(plan.out)["fields"]] == ["name"]
    text = (tmp_path / "link.toml").read_text().replace("ignore = []", 'ignore = ["sex"]')
    (tmp_path / "link.toml").write_text(text)
    assert "'sex' is a field and also set apart" in smered_("config", "check", "link.toml").err


def test_init_checks_what_it_is_told(smered_, people):
    for flag in ("--id", "--field", "--block", "--ignore", "--truth"):
        result = smered_("init", people, flag, "nope")
        assert (result.code, "'nope'" in result.err) == (2, True), flag


def test_infinite_b_and_impossible_numbers(smered_, people, tmp_path):
    (tmp_path / "l.toml").write_text("[fields.sex]\nb = inf\n[fields.name]\n")
    done(smered_("link", people, "--config", "l.toml", *QUICK, "--out", "run"))
    assert (
        json.loads(smered_("config", "show", "l.toml", "--json").out)["fields"]["sex"]["b"] == "inf"
    )
    for text in ("[model]\nmu = 1e308", "[model]\na = nan", "[sampling]\ndraws = true",
                 "[sampling]\ndraws = -1"):  # fmt: skip
        (tmp_path / "l.toml").write_text(f"[data]\nfiles = ['{people}']\n{text}\n")
        assert smered_("config", "check", "l.toml").code == 2, text


def test_missing_markers_hold_for_the_truth(smered_, tmp_path):
    lines = ["id,a,who"] + [f"{i},x{i % 3},{'NA' if i % 2 else i // 4}" for i in range(12)]
    (tmp_path / "t.csv").write_text("\n".join(lines))
    done(smered_("link", "t.csv", "--id", "id", "--truth", "who", "--missing", "NA", *QUICK))
    assert json.loads(smered_("evaluate", "linkage", "--json").out)["records_with_truth"] == 6
    (tmp_path / "twice.csv").write_text("id,who\n1,a\n2,b\n1,c\n")
    twice = smered_("evaluate", "linkage", "--truth", "twice.csv").err
    assert "rows 1 and 3 are about the same record" in twice
    (tmp_path / "unknown.csv").write_text("id,who\n1,a\n99,b\n")
    assert "row 2: " in smered_("evaluate", "linkage", "--truth", "unknown.csv").err


def test_outputs_stay_as_they_were_chosen(smered_, people, tmp_path):
    chosen = ["--loss", "vi", "--format", "csv", "--raw-csv"]
    done(smered_("link", people, "--id", "id", *QUICK, *chosen, "--out", "run"))
    done(smered_("extend", "run", "--draws", "5"))
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["estimate"]["loss"] == "vi"
    assert not (tmp_path / "run" / "linked.parquet").exists()
    done(smered_("export", "run", "--format", "parquet"))
    assert not (tmp_path / "run" / "linked.csv").exists()


def test_ids_that_repeat_between_files_of_one_table(smered_, tmp_path):
    lines = ["id,source,a"] + [f"{i},{s},x{i % 3}" for s in "pq" for i in range(8)]
    (tmp_path / "both.csv").write_text("\n".join(lines))
    done(smered_("init", "both.csv"))
    found = load_config(tmp_path / "link.toml")
    assert (found.data.id, found.data.file_column) == ("id", "source")
    assert set(found.fields) == {"a"}


@pytest.mark.parametrize(
    ("name", "content", "flags", "message"),
    [
        ("x.csv.gz", b"id,a\n1,x\n", [], "cannot decompress"),
        ("x.csv", b"id,a\n1,x\n", ["--encoding", "rot13"], "encoding 'rot13' is unknown"),
        ("x.csv", b"id,a\n1,x\n", ["--delimiter", "\u00e9"], "one plain character"),
        ("x.csv", b"id,a\n1,x\n", ["--file-column", "nope"], "file 'x' has no column 'nope'"),
    ],
)
def test_more_bad_input(smered_, tmp_path, name, content, flags, message):
    (tmp_path / name).write_bytes(content)
    result = smered_("link", name, *flags, *QUICK)
    assert (result.code, message in result.err) == (2, True), result


def test_odd_csv(smered_, tmp_path):
    (tmp_path / "one.csv").write_bytes(b"a\nx\n\ny\nx\ny\n")
    one = done(smered_("link", "one.csv", "--dry-run", "--json"))
    assert json.loads(one.out)["files"] == {"one": 5}
    (tmp_path / "bom.csv").write_bytes(b"\xef\xbb\xbfid\ta\n1\tx\n2\tx\n")
    done(smered_("link", "bom.csv", "--id", "id", "--encoding", "utf-8", "--delimiter", "tab",
                 "--dry-run"))  # fmt: skip
    long = b"id,a\n1," + b"x" * 200_000 + b"\n2,y\n3,y\n"
    (tmp_path / "long.csv").write_bytes(long)
    done(smered_("link", "long.csv", "--id", "id", "--dry-run"))
    (tmp_path / "break.csv").write_text("id,a\u2028b\n1,x\n2,x\n")
    done(smered_("link", "break.csv", "--id", "id", "--dry-run"))
    (tmp_path / ".hidden.csv").write_text("id,a\n1,x\n2,x\n")
    hidden = done(smered_("link", ".hidden.csv", "--id", "id", "--dry-run", "--json"))
    assert json.loads(hidden.out)["files"] == {"hidden": 2}
    assert "pipe or a device" in smered_("link", "/dev/null").err


def test_truth_that_one_file_lacks(smered_, tmp_path):
    rows = [f"{i},n{i % 15},{i % 15}" for i in range(30)]
    (tmp_path / "a.csv").write_text("\n".join(["id,name,who", *rows]))
    (tmp_path / "b.csv").write_text("\n".join(["id,name", *(r.rpartition(",")[0] for r in rows)]))
    done(smered_("link", "a.csv", "b.csv", "--id", "id", "--truth", "who", *QUICK))
    found = done(smered_("evaluate", "linkage", "--json"))
    assert json.loads(found.out)["records_with_truth"] == 30
    done(smered_("report", "linkage"))


def test_a_run_that_is_not_finished_says_so(smered_, people):
    done(smered_("link", people, "--id", "id", *QUICK))
    RunFolder.open(Path("linkage")).extend(50)
    found = done(smered_("summary", "linkage"))
    assert "The run is not finished: 20 of 50 draws of each chain are done" in found.out


def test_values_that_look_missing_are_noted(smered_, tmp_path):
    rows = [f"{i},n{i % 7},{'NA' if i % 5 else 'x'}" for i in range(40)]
    (tmp_path / "a.csv").write_text("\n".join(["id,name,town", *rows]))
    found = done(smered_("link", "a.csv", "--id", "id", "--dry-run"))
    assert "Note: 'NA' in town: if that means missing, say --missing NA" in found.out
    found = done(smered_("link", "a.csv", "--id", "id", "--missing", "NA", "--dry-run"))
    assert "Note:" not in found.out


def test_a_folder_of_parquet_says_what_it_leaves_out(smered_, tmp_path):
    (tmp_path / "people").mkdir()
    table = pa.table({"id": list(range(30)), "name": [f"n{i % 9}" for i in range(30)]})
    pq.write_table(table, tmp_path / "people" / "part-0.parquet")
    (tmp_path / "people" / "_SUCCESS").write_text("")
    (tmp_path / "people" / "more.csv").write_text("id,name\n31,n1\n")
    found = done(smered_("link", "people", "--id", "id", "--dry-run"))
    assert "left out, for they are no Parquet files: more.csv" in found.out
    assert "_SUCCESS" not in found.out
    (tmp_path / "people" / "part-1.parquet").write_bytes(b"PAR1 and nothing else")
    assert "part-1.parquet is a damaged Parquet file" in smered_("link", "people").err


def test_numbers_with_decimal_commas(smered_, tmp_path):
    rows = [f"{i};{i % 9},5;n{i % 7}" for i in range(40)]
    (tmp_path / "a.csv").write_text("\n".join(["id;size;name", *rows]))
    done(
        smered_("link", "a.csv", "--id", "id", "--field", "size:number", "--field", "name", *QUICK)
    )


def test_quiet_shows_no_notes_and_others_show_each_once(smered_, tmp_path):
    (tmp_path / "a.csv").write_text("id,name,sex\n1,Ann,\n2,Ann,\n3,Bob,\n")
    loud = done(smered_("link", "a.csv", "--id", "id", *QUICK, "--out", "one"))
    assert loud.err.count("is missing in every record") == 1
    quiet = done(smered_("link", "a.csv", "--id", "id", *QUICK, "--out", "two", "--quiet"))
    assert (quiet.out, quiet.err) == ("", "")
