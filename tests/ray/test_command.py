"""The command line on a Ray cluster."""

import os

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
