"""A run folder from a stranger or a failing disk: an error that names the file, never a crash."""

import json
import random
import shutil
from contextlib import suppress

import pyarrow as pa
import pytest

import smered
from smered.errors import RunError, SmeredError
from tests.faults.folders import files, rewrite, rewrite_json, rewrite_receipts, use
from tests.faults.test_interruptions import arguments


@pytest.fixture(scope="module")
def restricted(tmp_path_factory):
    """Blocks, a file without duplicates, a learned prior: more to get wrong."""
    out = tmp_path_factory.mktemp("restricted") / "run"
    told = {"blocks": ["f1"], "duplicates": {"a": False}, "prior": smered.Ewens()}
    smered.link(**arguments(draws=25, burn_in=10) | told, out=out)
    return out


def test_the_good_folder_is_good(good, tmp_path):
    copy = shutil.copytree(good, tmp_path / "run")
    assert rewrite_receipts(copy) == len([p for p in files(copy) if p.suffix == ".parquet"])
    use(copy)


def test_every_changed_file_is_named(good, tmp_path):
    for number, path in enumerate(files(good)):
        if path.suffix != ".parquet" or "timings" in path.parts:
            continue
        copy = shutil.copytree(good, tmp_path / str(number))
        target = copy / path.relative_to(good)
        content = bytearray(target.read_bytes())
        content[len(content) // 2] ^= 1
        target.write_bytes(content)
        with pytest.raises(RunError) as caught:
            use(copy)
        assert path.name in str(caught.value)
        assert "is damaged" in str(caught.value)


def test_every_missing_file_is_named(good, tmp_path):
    for number, path in enumerate(files(good)):
        if "timings" in path.parts or path.parent.name == "checkpoints":
            continue
        copy = shutil.copytree(good, tmp_path / str(number))
        (copy / path.relative_to(good)).unlink()
        with pytest.raises(RunError, match=path.name):
            use(copy)


def damage(content, chance):
    """Change, drop, repeat or insert some bytes."""
    content = bytearray(content)
    for _ in range(chance.randint(1, 8)):
        at = chance.randrange(len(content) + 1)
        kind = chance.choice(["flip", "cut", "repeat", "insert", "number"])
        if kind == "flip" and at < len(content):
            content[at] ^= 1 << chance.randrange(8)
        elif kind == "cut":
            del content[at : at + chance.randint(1, 50)]
        elif kind == "repeat":
            content[at:at] = content[at : at + chance.randint(1, 50)]
        elif kind == "insert":
            content[at:at] = chance.randbytes(chance.randint(1, 8))
        elif at < len(content) and chr(content[at]).isdigit():
            content[at : at + 1] = str(chance.choice([-1, 0, 10**6, 2**40, 1e300])).encode()
    return bytes(content)


def change_array(name, change):
    """Change one of the arrays that a checkpoint keeps."""

    def changed(table):
        rows = table.to_pylist()
        for row in rows:
            if row["name"] == name:
                row["data"] = change(row["data"])
        return pa.Table.from_pylist(rows, schema=table.schema)

    return changed


def replace_column(name, change):
    """Change one column of a table."""

    def changed(table):
        at = table.column_names.index(name)
        values = pa.array(change(table[name].to_pylist()), table.schema.field(name).type)
        return table.set_column(at, table.schema.field(name), values)

    return changed


def swap_members(values):
    """Two clusters of the first draw, put together, and one of them gone."""
    return [[0, 1], *values[1:]] if values[0] != [0, 1] else [[0, 2], *values[1:]]


WRONG = {
    "clusters across blocks": (
        "checkpoints/chain-0-part-*.parquet",
        change_array("entity", lambda data: bytes(len(data))),
    ),
    "clusters born too late": (
        "checkpoints/chain-0-part-*.parquet",
        change_array("born", lambda data: b"\xff\xff\xff\x0f" * (len(data) // 4)),
    ),
    "no probabilities": (
        "checkpoints/chain-0-state-*.parquet",
        change_array("theta", lambda data: b"\xff" * len(data)),
    ),
    "negative counts": (
        "checkpoints/chain-0-state-*.parquet",
        change_array("level_counts", lambda data: b"\xff" * len(data)),
    ),
    "no hyperparameter": (
        "checkpoints/chain-0-state-*.parquet",
        change_array("hyperparameters", lambda data: b"\xff" * len(data)),
    ),
    "records twice": (
        "lifetimes/chain-0-*-living-*.parquet",
        replace_column("members", swap_members),
    ),
    "disorder": (
        "lifetimes/chain-0-*-living-*.parquet",
        replace_column("members", lambda values: [each[::-1] for each in values]),
    ),
    "another draw": (
        "lifetimes/chain-0-*-living-*.parquet",
        replace_column("first", lambda values: [min(values[0] + 1, 24), *values[1:]]),
    ),
    "draws twice": (
        "draws/chain-0-*.parquet",
        replace_column("draw", lambda values: values[:1] * 25),
    ),
    "a draw less": ("draws/chain-0-*.parquet", lambda table: table.slice(1)),
    "short lists": (
        "draws/chain-0-*.parquet",
        replace_column("beta", lambda values: [values[0][:-1], *values[1:]]),
    ),
    "no record numbers": (
        "records/part-0000.parquet",
        lambda table: table.drop_columns(["record"]),
    ),
    "texts for codes": (
        "records/part-0000.parquet",
        lambda table: table.set_column(
            4, table.column_names[4], pa.array(["x"] * len(table), pa.string())
        ),
    ),
    "a block missing": (
        "records/part-0000.parquet",
        replace_column("block", lambda values: [None, *values[1:]]),
    ),
}


@pytest.mark.parametrize("what", WRONG)
def test_wrong_numbers_in_intact_files_are_found(restricted, tmp_path, what):
    copy = shutil.copytree(restricted, tmp_path / "run")
    rewrite(copy, *WRONG[what])
    with pytest.raises(SmeredError, match=r"damaged|lifetimes"):
        use(copy)


def fewer_settings(content):
    content["settings"] = {}


def another_column(content):
    content["model"]["fields"][0]["column"] = ["nothing"]


def rates_by_file(content):
    content["model"]["distortion"] = "file"


@pytest.mark.parametrize("change", [fewer_settings, another_column, rates_by_file])
def test_another_model_is_found(restricted, tmp_path, change):
    copy = shutil.copytree(restricted, tmp_path / "run")
    rewrite_json(copy, "run.json", change)
    with pytest.raises(SmeredError):
        use(copy)


@pytest.mark.parametrize("key", ["complete", "passing", "draws", "first", "sweep"])
def test_another_checkpoint_is_found_or_works(restricted, tmp_path, key):
    copy = shutil.copytree(restricted, tmp_path / "run")

    def change(content):
        content[key] = {"complete": True, "passing": []}.get(key, 1)

    rewrite_json(copy, "checkpoints/chain-0.json", change)
    with suppress(SmeredError):
        use(copy)


@pytest.mark.parametrize("name", ["run.json", "checkpoints/chain-0.json"])
def test_changed_numbers_are_noticed(good, tmp_path, name):
    copy = shutil.copytree(good, tmp_path / "run")
    text = (copy / name).read_text()
    (copy / name).write_text(text.replace("25", "24"))
    assert text != (copy / name).read_text()
    with pytest.raises(RunError, match=f"{name} is damaged: its content changed"):
        use(copy)


def test_draws_without_their_checkpoint_are_not_thrown_away(good, tmp_path):
    copy = shutil.copytree(good, tmp_path / "run")
    (copy / "checkpoints" / "chain-1.json").unlink()
    before = files(copy)
    for attempt in (smered.Posterior.open, smered.resume):
        with pytest.raises(RunError, match=r"chain-1.json is missing, and the draws of chain 1"):
            attempt(copy)
    assert files(copy) == before
    for path in copy.rglob("chain-1-*"):
        path.unlink()
    rewrite_json(copy, "run.json", lambda content: content.pop("ended"))
    assert smered.resume(copy).run.draws_done() == [25, 25]
    assert [p.relative_to(copy) for p in files(copy)] == [p.relative_to(good) for p in files(good)]


@pytest.mark.parametrize("batch", range(6))
def test_fuzzed_folders_give_an_error_or_work(good, tmp_path, batch):
    chance = random.Random(batch)
    refused = 0
    for number in range(40):
        copy = shutil.copytree(good, tmp_path / str(number))
        target = chance.choice(files(copy))
        target.write_bytes(damage(target.read_bytes(), chance))
        if chance.random() < 0.7:
            rewrite_receipts(copy)
        try:
            use(copy)
        except SmeredError:
            refused += 1
        shutil.rmtree(copy)
    assert refused > 20


def test_a_newer_format_is_refused(good, tmp_path):
    copy = shutil.copytree(good, tmp_path / "run")
    content = json.loads((copy / "run.json").read_text())
    (copy / "run.json").write_text(json.dumps(content | {"format": 99}))
    with pytest.raises(RunError, match="format 99 is not one that smered"):
        smered.Posterior.open(copy)
