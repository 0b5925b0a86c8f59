"""The command line on a Ray cluster."""

import json
import os

import pyarrow.parquet as pq

from smered import simulate
from tests.cli.program import QUICK, process
from tests.ray.cases import bytes_of


def write_tables(folder):
    data = simulate.simulate({("a",): 40, ("a", "b"): 60}, [6, 8, 7, 9], seed=3)
    for name, table in data.tables.items():
        table.drop_columns(["entity"]).to_pandas().to_csv(folder / f"{name}.csv", index=False)
    return ["link", "a.csv", "b.csv", "--id", "id", "--block", "f1", "--quiet", *QUICK]


def test_link_on_ray_gives_the_bytes_of_threads(tmp_path, cluster):
    command = write_tables(tmp_path)
    assert process(*command, "--out", "here", cwd=tmp_path).code == 0
    there = process(*command, "--out", "there", "--ray", cluster.address, cwd=tmp_path)
    assert there.code == 0, there.err
    assert bytes_of(tmp_path / "there") == bytes_of(tmp_path / "here")
    more = ["--draws", "10", "--quiet"]
    assert process("extend", "here", *more, cwd=tmp_path).code == 0
    assert process("extend", "there", *more, "--ray", cluster.address, cwd=tmp_path).code == 0
    assert bytes_of(tmp_path / "there") == bytes_of(tmp_path / "here")


def test_parquet_is_coded_on_the_cluster(tmp_path, cluster):
    data = simulate.simulate({("a",): 40, ("a", "b"): 60}, [6, 8, 7, 9], seed=3)
    for name, table in data.tables.items():
        pq.write_table(table, tmp_path / f"{name}.parquet", row_group_size=30)
    (tmp_path / "link.toml").write_text(
        '[data]\nfiles = ["a.parquet", "two=b.parquet"]\nid = "id"\ntruth = "entity"\n'
        '[model]\npairs = "rotating"\n'
    )
    command = ["link", "--config", "link.toml", *QUICK]
    here = process(*command, "--out", "here", cwd=tmp_path)
    there = process(*command, "--out", "there", "--ray", cluster.address, cwd=tmp_path)
    assert here.code == there.code == 0, there.err
    assert "a.parquet: Parquet, 100 rows" in there.out
    assert bytes_of(tmp_path / "there") == bytes_of(tmp_path / "here")
    blocked = ["link", "a.parquet", "--id", "id", "--ignore", "entity", "--block", "f1"]
    plan = process(
        *blocked, "--dry-run", "--json", "--out", "none", "--ray", cluster.address, cwd=tmp_path
    )
    told = json.loads(plan.out)
    assert told["files"] == {"a": 100}
    assert told["blocks"] == 6
    assert sum(told["largest_blocks"][i][1] for i in range(3)) <= 100
    assert told["largest_blocks"][0][0].startswith("f1 ")
    assert not (tmp_path / "none").exists()
    wrong = process(*blocked, "--field", "f9", "--ray", cluster.address, cwd=tmp_path)
    assert wrong.code == 2
    assert wrong.err.startswith("smered: file 'a' has no column 'f9'")
    assert len(wrong.err.strip().splitlines()) == 1


def test_errors_are_one_line(tmp_path):
    command = write_tables(tmp_path)
    unreachable = process(*command, "--ray", "127.0.0.1:1", cwd=tmp_path)
    assert unreachable.code == 2
    assert "cannot reach Ray at 127.0.0.1:1" in unreachable.err
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "ray.py").write_text("raise ImportError")
    without = os.environ | {"PYTHONPATH": str(tmp_path / "empty")}
    missing = process(*command, "--ray", cwd=tmp_path, env=without)
    assert missing.code == 2
    assert "install it with pip install 'smered[ray]'" in missing.err
    for result in (unreachable, missing):
        assert "Traceback" not in result.err
        assert len(result.err.strip().splitlines()) == 1
    assert not (tmp_path / "linkage").exists()
