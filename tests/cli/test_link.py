"""From files to linked files: what a user types and gets."""

import csv
import json
import os
import re
import signal
import subprocess
import time

import numpy as np
import pyarrow.parquet as pq
import pytest

from smered.evaluate import evaluate
from smered.posterior import Posterior
from tests.cli.program import QUICK, SMERED, process

DATA = ["--id", "id", "--truth", "entity", "--ignore", "note", "--no-duplicates"]


def rows(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture
def linked(smered_, files, tmp_path):
    result = smered_("link", *files, *DATA, *QUICK, "--out", "run")
    assert result.code == 0, result.err
    return result


def test_link_writes_tables_and_a_summary(linked, simulation, tmp_path):
    run = tmp_path / "run"
    posterior = Posterior.open(run)
    estimate = posterior.estimate()
    table = rows(run / "linked.csv")
    assert len(table) == len(simulation.truth)
    assert [row["entity_id"] for row in table] == [estimate.entity_id[e] for e in estimate.entity]
    assert [int(row["entity"]) for row in table] == simulation.truth.tolist()
    assert table[0]["note"] == "'=cmd0"  # neutralised for spreadsheets
    parquet = pq.read_table(run / "linked.parquet")
    assert parquet["note"][0].as_py() == "=cmd0"  # data stay data
    assert parquet.column_names == list(table[0])
    people = rows(run / "entities.csv")
    assert len(people) == len(estimate)
    assert sum(int(row["records"]) for row in people) == len(table)
    members = [name for row in people for name in row["members"].split(" + ")]
    assert sorted(members) == sorted(f"{row['file']}:{row['id']}" for row in table)
    for row in rows(run / "pairs.csv"):
        probability = posterior.match_probability((row["file_a"], row["id_a"]),
                                                  (row["file_b"], row["id_b"]))  # fmt: skip
        assert float(row["probability"]) == pytest.approx(probability)
        assert probability >= 0.1
    summary = json.loads((run / "summary.json").read_text())
    assert summary["entities"]["mean"] == pytest.approx(posterior.entities().mean)
    assert summary["records"] == len(table)
    for text in ("135 records", "No duplicates within any file", "sex", "candidate pairs",
                 "Expected: about", "Entities:", "a + b", "Distortion"):  # fmt: skip
        assert text in linked.out, text


def test_alternatives_are_the_other_matching_sets(linked, tmp_path):
    posterior = Posterior.open(tmp_path / "run")
    estimate, records = posterior.estimate(), posterior.records
    names = [f"{records.files[f]}:{i}" for f, i in zip(records.file, records.ids.to_pylist(),
                                                       strict=True)]  # fmt: skip
    some = 0
    for number, row in enumerate(rows(tmp_path / "run" / "linked.csv")):
        own = set(np.flatnonzero(estimate.entity == estimate.entity[number]).tolist())
        others = [(s, p) for s, p in posterior.matching_sets(number) if set(s) != own]
        for place in (1, 2, 3):
            text = row[f"alternative_{place}"]
            if len(others) < place:
                assert text == ""
                continue
            some += 1
            found = {names.index(name) for name in text.split(" + ")} if text != "alone" else set()
            chances = [p for s, p in others if set(s) == found | {number}]
            assert chances == [pytest.approx(float(row[f"alternative_{place}_probability"]))]
            assert chances[0] == pytest.approx(others[place - 1][1])
    assert some > 20


def test_the_same_seed_gives_the_same_bytes(smered_, files, tmp_path):
    for out, threads in (("one", "1"), ("two", "2")):
        arguments = [*QUICK[:-1], threads, "--seed", "5", "--out", out, "--quiet"]
        result = smered_("link", *files, *DATA, *arguments)
        assert (result.code, result.out, result.err) == (0, "", "")
    for name in ("linked.csv", "linked.parquet", "entities.csv", "pairs.parquet", "summary.json"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()


def test_one_table_with_a_file_column_and_named_files(smered_, files, simulation, tmp_path):
    table = "\n".join(
        line + f",{'file' if n == 0 else name}"
        for first, name in enumerate(simulation.tables)
        for n, line in enumerate((tmp_path / f"{name}.csv").read_text().split("\n")[:-1])
        if n or not first
    )
    (tmp_path / "all.csv").write_text(table.replace("town,note,file", 'town,note,"file"'))
    one = smered_(
        "link", "all.csv", "--file-column", "file", *DATA, *QUICK, "--out", "one", "--json"
    )
    assert one.code == 0, one.err
    named = smered_("link", *(f"{n}={f}" for n, f in zip("abc", files, strict=True)), *DATA, *QUICK,
                    "--out", "two", "--json")  # fmt: skip
    assert json.loads(one.out)["entities"] == json.loads(named.out)["entities"]
    assert "135 records" in one.err  # words go to standard error


def test_dry_run_writes_nothing(smered_, files, tmp_path):
    before = sorted(os.listdir(tmp_path))
    result = smered_("link", *files, *DATA, "--block", "note", "--dry-run", "--json")
    plan = json.loads(result.out)
    assert plan["files"] == {"a": 60, "b": 55, "c": 20}
    assert plan["blocks"] == 60
    assert {field["name"]: field["levels"] for field in plan["fields"]}["sex"] == 2
    assert plan["largest_blocks"][0] == ["note =cmd0", 3]
    assert sorted(os.listdir(tmp_path)) == before


def test_a_run_is_replaced_only_with_force(linked, smered_, files, tmp_path):
    again = smered_("link", *files, *DATA, *QUICK, "--out", "run")
    assert again.code == 2
    assert "exists already" in again.err
    assert "--force" in again.err
    forced = smered_("link", *files, *DATA, *QUICK, "--seed", "1", "--out", "run", "--force")
    assert forced.code == 0, forced.err
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("precious")
    other = smered_("link", *files, *DATA, *QUICK, "--out", "mine", "--force")
    assert other.code == 2
    assert (tmp_path / "mine" / "thesis.txt").read_text() == "precious"


def test_ask_a_run(linked, smered_, tmp_path):
    summary = smered_("summary", "run", "--json")
    assert json.loads(summary.out) == json.loads((tmp_path / "run" / "summary.json").read_text())
    assert "95% interval" in smered_("summary", "run").out
    query = smered_("query", "run", "--record", "a:1", "--json")
    found = json.loads(query.out)
    posterior = Posterior.open(tmp_path / "run")
    expected = posterior.matching_sets(("a", "1"))
    assert [s["probability"] for s in found["sets"]] == [p for _, p in expected[:5]]
    assert found["record"]["id"] == "1"
    text = smered_("query", "run", "--record", "a:1").out
    assert "matching set" in text
    wrong = smered_("query", "run", "--record", "d:1")
    assert wrong.code == 2
    assert "'a', 'b', 'c'" in wrong.err
    exported = smered_("export", "run", "--loss", "vi", "--format", "csv", "--out", "tables",
                       "--raw-csv", "--min-probability", "0.5")  # fmt: skip
    assert exported.code == 0, exported.err
    assert sorted(p.name for p in (tmp_path / "tables").iterdir()) == [
        "entities.csv", "linked.csv", "pairs.csv", "summary.json"]  # fmt: skip
    assert rows(tmp_path / "tables" / "linked.csv")[0]["note"] == "=cmd0"
    assert smered_("export", "run", "--loss", "best").code == 2
    assert smered_("export", "run", "--format", "xlsx").code == 2


def test_differing_values_are_marked(linked, smered_, tmp_path):
    posterior = Posterior.open(tmp_path / "run")
    records = posterior.records
    one, two = next(
        (pair["record_a"], pair["record_b"])
        for pair in posterior.pairs(0.2).to_pylist()
        if any(c.codes[pair["record_a"]] != c.codes[pair["record_b"]] and
               min(c.codes[pair["record_a"]], c.codes[pair["record_b"]]) >= 0
               for c in records.columns.values())
    )  # fmt: skip
    name = f"{records.files[records.file[one]]}:{records.ids[one].as_py()}"
    text = smered_("query", "run", "--record", name, "--top", "50").out
    other = f"{records.files[records.file[two]]}:{records.ids[two].as_py()}"
    assert other in text
    assert re.search(r" \*\s+[│|]", text)


def test_evaluate(linked, smered_, simulation, tmp_path):
    result = smered_("evaluate", "run", "--json", "--figures", "figures")
    found = json.loads(result.out)
    posterior = Posterior.open(tmp_path / "run")
    assert found == evaluate(posterior, simulation.truth).to_dict()
    assert found["estimate"]["f1"] > 0.8
    assert sorted(p.name for p in (tmp_path / "figures").iterdir()) == [
        "confusion.png", "confusion.svg", "reliability.png", "reliability.svg"]  # fmt: skip
    records = posterior.records
    lines = ["file,id,person"]
    ids = records.ids.to_pylist()
    known = zip(records.file, ids, simulation.truth, strict=True)
    lines += [f"{records.files[file]},{id},{entity}" for file, id, entity in known]
    (tmp_path / "truth.csv").write_text("\n".join(lines))
    assert json.loads(smered_("evaluate", "run", "--truth", "truth.csv", "--json").out) == found
    (tmp_path / "part.csv").write_text("\n".join(lines[:61]))
    part = json.loads(smered_("evaluate", "run", "--truth", "part.csv", "--json").out)
    assert part["records_with_truth"] == 60
    text = smered_("evaluate", "run").out
    for word in ("FNR", "B-cubed", "relative error", "Calibration error", "sum"):
        assert word in text
    wrong = smered_("evaluate", "run", "--truth", "entty")
    assert wrong.code == 2
    assert "did you mean 'entity'?" in wrong.err


def test_init_then_link(smered_, files, tmp_path):
    text = (tmp_path / "a.csv").read_text().split("\n")
    text[1] = text[1].replace(text[1].split(",")[-2], "N/A")
    (tmp_path / "a.csv").write_text("\n".join(text))
    result = smered_("init", *files, "--config", "link.toml")
    assert result.code == 0, result.err
    written = (tmp_path / "link.toml").read_text()
    assert 'id = "id"' in written
    assert 'truth = "entity"' in written
    assert 'missing = ["N/A"]' in written
    assert "[fields.town]" in written
    assert smered_("init", *files, "--config", "link.toml").code == 2
    check = smered_("config", "check", "link.toml")
    assert "fits its files: 135 records, 5 fields" in check.out
    shown = smered_("config", "show", "link.toml")
    (tmp_path / "again.toml").write_text(shown.out)
    assert smered_("config", "show", "again.toml").out == shown.out
    result = smered_("link", "--config", "link.toml", "--ignore", "note", "--field", "sex",
                     "--field", "day:exact", "--field", "town", *QUICK, "--out", "run")  # fmt: skip
    assert result.code == 0, result.err
    run = json.loads((tmp_path / "run" / "run.json").read_text())
    assert [field["column"] for field in run["model"]["fields"]] == ["sex", "day", "town"]
    assert run["model"]["fields"][1]["b"] == "inf"
    assert run["provenance"]["config"]["data"]["missing"] == ["N/A"]


def test_settings_of_link_toml_reach_the_model(smered_, files, tmp_path):
    (tmp_path / "link.toml").write_text("""
        [data]
        files = ["a.csv", "b.csv"]
        id = "id"
        truth = "entity"
        duplicates = { a = false }
        [model]
        distortion = "file"
        a = 2
        prior = { type = "ewens" }
        [sampling]
        draws = 5
        chains = 1
        [fields.sex]
        b = 50
        [fields.place]
        type = "joint"
        columns = ["town", "year"]
    """)
    result = smered_("link", "--config", "link.toml", "--burn-in", "3", "--out", "run")
    assert result.code == 0, result.err
    run = json.loads((tmp_path / "run" / "run.json").read_text())
    assert run["model"]["duplicates"] == {"a": False, "b": True}
    assert run["model"]["distortion"] == "file"
    assert run["model"]["prior"]["type"] == "Ewens"
    assert [(f["a"], f["b"]) for f in run["model"]["fields"]] == [(2, 50), (2, None)]
    assert run["model"]["fields"][1]["columns"] == ["town", "year"]
    assert (run["settings"]["draws"], run["settings"]["burn_in"]) == (5, 3)
    prior = '{ type = "cluster-sizes", files = false }'
    text = (tmp_path / "link.toml").read_text().replace('{ type = "ewens" }', prior)
    (tmp_path / "link.toml").write_text(text)
    result = smered_("link", "--config", "link.toml", "--burn-in", "3", "--out", "run", "--force")
    assert result.code == 0, result.err
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert "in a" not in summary["hyperparameters"]
    assert "size 2" in summary["hyperparameters"]


@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_is_resumed_to_the_same_tables(smered_, files, tmp_path, sign):
    arguments = [*DATA, "--draws", "3000", "--burn-in", "5", "--chains", "2", "--threads", "1"]
    command = [SMERED, "link", *files, *arguments, "--out", "run"]
    default = lambda: signal.signal(signal.SIGINT, signal.default_int_handler)  # noqa: E731
    running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                               preexec_fn=default)  # fmt: skip
    while not list(tmp_path.glob("run/checkpoints/*.json")):
        assert running.poll() is None
        time.sleep(0.01)
    running.send_signal(sign)
    _, err = running.communicate(timeout=60)
    assert running.returncode == 130, err
    assert "smered resume run" in err
    assert "Traceback" not in err
    assert not (tmp_path / "run" / "linked.csv").exists()
    resumed = smered_("resume", "run", "--quiet")
    assert (resumed.code, resumed.out) == (0, ""), resumed.err
    assert smered_("link", *files, *arguments, "--out", "whole", "--quiet").code == 0
    for name in ("linked.parquet", "summary.json"):
        assert (tmp_path / "run" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_extend(linked, smered_, files, tmp_path):
    extended = smered_("extend", "run", "--draws", "7", "--json")
    assert json.loads(extended.out)["draws"] == 27
    longer = [*DATA, *QUICK, "--draws", "27", "--out", "whole", "--json"]
    whole = smered_("link", *files, *longer)
    assert json.loads(whole.out) == json.loads(extended.out)
    assert (tmp_path / "run" / "linked.csv").read_bytes() == (
        tmp_path / "whole" / "linked.csv"
    ).read_bytes()


def test_help_has_examples_everywhere():
    commands = [
        "link",
        "init",
        "summary",
        "query",
        "export",
        "evaluate",
        "resume",
        "extend",
        "demo",
    ]
    for command in [[c] for c in commands] + [["config", "check"], ["config", "show"]]:
        text = process(*command, "--help").out
        assert "Example" in text, command
        assert f"smered {command[0]}" in text.replace("Usage: smered", ""), command


def test_completion_is_offered():
    shown = process(
        "--show-completion", env=os.environ | {"_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    )
    assert "completion" in process("--help").out.lower()
    assert "Traceback" not in shown.err
