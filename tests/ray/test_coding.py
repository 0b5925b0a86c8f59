"""Tables coded on a cluster leave the files that one machine would write."""

import contextlib
import hashlib
import json
import socket
import subprocess
import sys
import time
import warnings

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import smered
from smered import simulate
from smered.errors import ConfigError, DataError, DataWarning
from smered.execute.on_ray import RayCluster
from smered.fields import Joint, Text
from smered.pairs import RotatingBlocks
from smered.sources import parquet

SETTINGS = {"draws": 10, "burn_in": 10, "chains": 1, "seed": 4, "parts": 3}


@pytest.fixture
def small_pieces(monkeypatch):
    monkeypatch.setattr(parquet, "ROWS_PER_PIECE", 100)


def tables():
    """Two files with text, whole numbers held as floats, missing values and dictionaries."""
    data = simulate.simulate({("a",): 150, ("a", "b"): 200, ("b", "b"): 20}, [9, 8, 7, 12], seed=3)
    rng = np.random.default_rng(0)
    made = {}
    for name, table in data.tables.items():
        rows = len(table)
        number = rng.integers(0, 5, rows).astype(float)
        number[::17] = np.nan
        made[name] = (
            table.append_column("number", pa.array(number))
            .append_column("name", pa.array([f"name {i % 13}" for i in rng.integers(0, 40, rows)]))
            .append_column("comment", pa.array([None if i % 3 else f"= {i}" for i in range(rows)]))
            .set_column(table.schema.get_field_index("f2"), "f2",
                        table["f2"].cast(pa.string()).dictionary_encode())
        )  # fmt: skip
    return made


def write(folder, made):
    places = {}
    for name, table in made.items():
        places[name] = folder / f"{name}.parquet"
        pq.write_table(table, places[name], row_group_size=70)
    return places


def contents(folder):
    """Checksums of all files that hold records and draws, copies of the inputs left out."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for kind in ("records", "lifetimes", "draws", "checkpoints")
        for path in sorted((folder / kind).glob("*.parquet"))
        if not path.name.startswith("input-")
    }


CASES = {
    "blocks": {"fields": ["f2", "f3", "f4", "number"], "blocks": ["f1"]},
    "two-block-columns": {"fields": ["f3", "f4", Text("name")], "blocks": ["f1", "f2"]},
    "joint": {"fields": [Joint("f2", "f4"), "f3"], "blocks": "f1", "missing": ["11"]},
    "rotating": {"fields": ["f1", "f2", "f3", "f4"], "pairs": RotatingBlocks()},
    "rotating-in-blocks": {"fields": ["f2", "f3", "f4"], "blocks": "f1", "pairs": RotatingBlocks()},
}


def link(frames, out, execute, **changes):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return smered.link(frames, out=out, execute=execute, **({"id": "id"} | SETTINGS | changes))


@pytest.mark.parametrize("case", CASES)
def test_files_are_those_of_one_machine(case, tmp_path, cluster, small_pieces):
    made = tables()
    places = write(tmp_path, made)
    assert len(parquet.find_parquet(str(places["a"])).pieces) > 2
    here = link(places, tmp_path / "here", "threads", **CASES[case])
    there = link(places, tmp_path / "there", RayCluster(cluster.address), **CASES[case])
    assert contents(tmp_path / "there") == contents(tmp_path / "here")
    files = [json.loads((tmp_path / run / "run.json").read_text()) for run in ("here", "there")]
    for one in files:
        for name in ("created", "ended", "seconds", "threads", "contents", "seal"):
            del one[name]
    assert files[0] == files[1]
    for name, table in made.items():
        one, two = (run.records.inputs[name] for run in (here, there))
        assert one.schema == two.schema
        assert len(one) == len(two) == len(table)
        np.testing.assert_array_equal(one["number"].to_numpy(), two["number"].to_numpy())
        assert one.drop_columns("number").equals(two.drop_columns("number"))


def test_one_table_with_a_file_column(tmp_path, cluster, small_pieces):
    rows = np.random.default_rng(1).permutation(
        np.repeat(["north", "south", "east"], [150, 120, 30])
    )
    made = simulate.simulate({("a",): 300}, [9, 8, 7, 12], seed=3).tables["a"]
    table = made.append_column("region", pa.array(rows)).drop_columns(["id"])
    places = write(tmp_path, {"all": table})
    how = {"fields": ["f2", "f3", "f4"], "blocks": "f1", "file_column": "region", "id": None}
    link(places["all"], tmp_path / "here", "threads", **how)
    link(places["all"], tmp_path / "there", RayCluster(cluster.address), **how)
    assert contents(tmp_path / "there") == contents(tmp_path / "here")


def wait_for(port):
    """Wait until a server answers."""
    for _ in range(200):
        with contextlib.suppress(OSError):
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        time.sleep(0.05)
    raise AssertionError("the server did not start")


def test_a_folder_of_files_on_another_file_system(tmp_path, cluster, small_pieces):
    """A table of several files, read by the workers from a real FTP server."""
    made = tables()
    (tmp_path / "served" / "a").mkdir(parents=True)
    for number in range(3):
        share = made["a"].slice(number * 150, 150)
        pq.write_table(share, tmp_path / "served" / "a" / f"part-{number}.parquet")
    (tmp_path / "served" / "a" / "_SUCCESS").write_text("")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-m", "pyftpdlib", "-i", "127.0.0.1", "-p", str(port),
         "-u", "reader", "-P", "secret", "-d", tmp_path / "served"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        wait_for(port)
        how = {"fields": ["f2", "f3", "f4"], "blocks": "f1"}
        place = f"ftp://reader:secret@127.0.0.1:{port}/a"
        link({"a": place}, tmp_path / "there", RayCluster(cluster.address), **how)
        link({"a": tmp_path / "served" / "a"}, tmp_path / "here", "threads", **how)
        link({"a": place}, tmp_path / "over", "threads", **how)
        with pytest.raises(DataError, match=r"ftp://reader@127\.0\.0\.1.*/b does not exist"):
            link({"a": place[:-1] + "b"}, tmp_path / "none", RayCluster(cluster.address), **how)
    finally:
        server.kill()
        server.wait()
    assert contents(tmp_path / "there") == contents(tmp_path / "here")
    assert contents(tmp_path / "over") == contents(tmp_path / "here")
    for run in ("there", "over"):
        assert "secret" not in (tmp_path / run / "run.json").read_text()


def test_what_would_fail_later_is_refused_first(tmp_path, cluster):
    place = write(tmp_path, {"a": tables()["a"]})["a"]
    execute = RayCluster(cluster.address)
    how = {"fields": ["f2", "f3"], "blocks": "f1", "execute": execute}
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "file").write_text("")
    with pytest.raises(ConfigError, match="exists already and is not empty"):
        link(place, tmp_path / "taken", **how)
    with pytest.raises(ConfigError, match="needs a folder"):
        link(place, None, **how)
    with pytest.raises(ConfigError, match="unknown setting 'drawz'"):
        link(place, tmp_path / "run", drawz=3, **how)
    with pytest.raises(DataError, match="no files given"):
        link({}, tmp_path / "run", **how)
    link(place, tmp_path / "run", **how)
    inside = tmp_path / "run" / "records" / "input-0.parquet"
    with pytest.raises(ConfigError, match=r"input-0\.parquet lies in .*run: choose another"):
        link(inside, tmp_path / "run", replace=True, **how)
    assert inside.exists()


def test_fields_that_do_nothing_are_told(tmp_path, cluster):
    table = pa.table({"f": ["x", "y"] * 20, "g": list(range(40)), "h": [None] * 40})
    place = write(tmp_path, {"a": table})["a"]
    with pytest.warns(DataWarning) as told:
        smered.link(
            place, ["f", "g", "h"], out=tmp_path / "run", draws=2, burn_in=2, chains=1,
            execute=RayCluster(cluster.address),
        )  # fmt: skip
    messages = " ".join(str(each.message) for each in told)
    assert "'g' has a different value in every record" in messages
    assert "'h' is missing in every record" in messages


def test_mistakes_in_the_data_are_named(tmp_path, cluster, small_pieces):
    """With the messages that one machine gives."""
    made = tables()
    a, n = made["a"], len(made["a"])
    ids = a["id"].to_pylist()
    wrong = {
        "twice": (a.set_column(0, "id", pa.array([*ids[:-1], ids[3]])), {}),
        "no id": (a.set_column(0, "id", pa.array([*ids[:200], None, *ids[201:]])), {}),
        "no block": (a, {"blocks": ["f1", "number"]}),
        "no column": (a, {"fields": ["f2", "f5"]}),
        "no file": (a.append_column("file", pa.array(["x"] * 250 + [None] * (n - 250))),
                    {"file_column": "file", "id": None}),
        "empty": (a.slice(0, 0), {}),
        "nested": (a.append_column("list", pa.array([[i] for i in range(n)])),
                   {"fields": ["f2", "list"]}),
    }  # fmt: skip
    assert a.column_names[0] == "id"
    for name, (table, changes) in wrong.items():
        place = write(tmp_path, {"a": table})["a"]
        how = {"fields": ["f2", "f3"], "blocks": "f1"} | changes
        messages = []
        for execute in ("threads", RayCluster(cluster.address)):
            with pytest.raises(DataError) as error:
                link(place, tmp_path / "run", execute, **how)
            messages.append(str(error.value))
        assert messages[0] == messages[1], name
        assert not (tmp_path / "run").exists()
