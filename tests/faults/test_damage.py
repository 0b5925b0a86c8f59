"""A run folder from a stranger or a failing disk: an error that names the file, never a crash."""

import hashlib
import json
import os
import random
import shutil
from contextlib import suppress

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import smered
from smered.errors import RunError, SmeredError
from smered.outputs import write_outputs
from smered.store.schema import seal
from tests.faults.test_interruptions import arguments


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    out = tmp_path_factory.mktemp("good") / "run"
    smered.link(**arguments(draws=25, burn_in=10), out=out)
    return out


def use(folder):
    """Read everything that a posterior reads, then try to go on."""
    posterior = smered.Posterior.open(folder)
    posterior.entities()
    posterior.overlap()
    posterior.estimate()
    posterior.diagnostics()
    posterior.true_values(0, 0)
    write_outputs(posterior, folder, estimate=posterior.estimate())
    smered.extend(folder, 2)


@pytest.fixture(scope="module")
def restricted(tmp_path_factory):
    """Blocks, a file without duplicates, a learned prior: more to get wrong."""
    out = tmp_path_factory.mktemp("restricted") / "run"
    told = {"blocks": ["f1"], "duplicates": {"a": False}, "prior": smered.Ewens()}
    smered.link(**arguments(draws=25, burn_in=10) | told, out=out)
    return out


def files(folder):
    return sorted(p for p in folder.rglob("*") if p.is_file() and p.name != "lock")


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


def rewrite_receipts(folder):
    """Make every checksum fit again, as someone who means harm would; return how many there are."""
    made = 0
    for holder in [folder / "run.json", *folder.glob("checkpoints/*.json")]:
        try:
            content = json.loads(holder.read_text())
            receipts = content["contents" if holder.name == "run.json" else "files"]
            for name in receipts:
                data = (folder / name).read_bytes()
                receipts[name] = {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
                made += 1
        except (ValueError, OSError, KeyError, TypeError, AttributeError):
            continue
        holder.write_text(json.dumps(seal(content)))
    return made


def rewrite(folder, name, change):
    """Change the columns of a Parquet file, and make every checksum fit again."""
    (path,) = folder.glob(name)
    pq.write_table(change(pq.read_table(path)), path)
    rewrite_receipts(folder)


def rewrite_json(folder, name, change):
    """Change what a JSON file holds, and make its checksum fit again."""
    content = json.loads((folder / name).read_text())
    change(content)
    (folder / name).write_text(json.dumps(seal(content)))


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


def test_links_do_not_lead_out_of_the_folder(good, tmp_path):
    copy, victim = shutil.copytree(good, tmp_path / "run"), tmp_path / "victim.txt"
    victim.write_text("mine")
    (copy / ".run.json.unfinished").symlink_to(victim)
    smered.extend(copy, 1)
    assert victim.read_text() == "mine"
    other = tmp_path / "other"
    shutil.move(copy / "timings", other)
    (other / "chain-0-mine.parquet").write_text("mine")
    (copy / "timings").symlink_to(other)
    with pytest.raises(RunError, match="timings is a link"):
        smered.extend(copy, 1)
    assert (other / "chain-0-mine.parquet").read_text() == "mine"


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


def test_names_cannot_leave_the_folder(good, tmp_path):
    copy = shutil.copytree(good, tmp_path / "run")
    path = copy / "checkpoints" / "chain-0.json"
    content = json.loads(path.read_text())
    secret = tmp_path / "secret.parquet"
    secret.write_bytes(b"x")
    content["files"]["../secret.parquet"] = {"bytes": 1, "sha256": "0"}
    path.write_text(json.dumps(seal(content)))
    with pytest.raises(RunError, match="names a file outside the run folder"):
        smered.Posterior.open(copy)
    assert secret.exists()


@pytest.mark.parametrize("name", ["run.json", "checkpoints/chain-0.json", "lifetimes"])
@pytest.mark.parametrize("kind", ["pipe", "device", "link", "folder", "large"])
def test_what_is_no_plain_file_is_refused(good, tmp_path, name, kind):
    """Without waiting for a pipe, following a link, or reading without end."""
    copy = shutil.copytree(good, tmp_path / "run")
    target = copy / name if "." in name else sorted((copy / name).iterdir())[0]
    content = target.read_bytes()
    target.unlink()
    if kind == "pipe":
        os.mkfifo(target)
    elif kind == "device":
        target.symlink_to("/dev/zero")
    elif kind == "link":
        (tmp_path / "elsewhere").write_bytes(content)
        target.symlink_to(tmp_path / "elsewhere")
    elif kind == "folder":
        target.mkdir()
    else:
        with target.open("wb") as file:
            file.truncate(1 << 42)  # it takes no room
    with pytest.raises(RunError, match=target.name):
        use(copy)


def beyond_the_end(content):
    content["draws"] = 500_000_000


def sweeps_beyond_the_end(content):
    content["sweep"] = 10**30


def deep_names(content):
    content["files"]["lifetimes/a/b.parquet"] = {"bytes": 1, "sha256": "0"}


@pytest.mark.parametrize("change", [beyond_the_end, sweeps_beyond_the_end, deep_names])
def test_checkpoints_that_claim_too_much(good, tmp_path, change):
    copy = shutil.copytree(good, tmp_path / "run")
    rewrite_json(copy, "checkpoints/chain-0.json", change)
    with pytest.raises(RunError, match="is damaged"):
        use(copy)


def many_chains(content):
    content["settings"]["chains"] = 10**8
    content.pop("ended")


def long_burn_in(content):
    content["settings"]["burn_in"] = 10**30


def files_alike(content):
    content["files"] = ["a", "a"]


def two_shares(content):
    content["model"]["fields"][0]["mu"] = [1, 2]


@pytest.mark.parametrize("change", [many_chains, long_burn_in, files_alike, two_shares])
def test_settings_that_cannot_be(good, tmp_path, change):
    copy = shutil.copytree(good, tmp_path / "run")
    rewrite_json(copy, "run.json", change)
    with pytest.raises(SmeredError):
        use(copy)


def test_small_files_that_hold_very_much_are_not_unpacked(good, tmp_path):
    """A thousand bytes may stand for hundreds of millions of equal members."""
    copy = shutil.copytree(good, tmp_path / "run")

    def swell(table):
        many = pa.array(np.zeros(20_000_000, np.int32))
        members = pa.ListArray.from_arrays(pa.array([0, len(many)], pa.int32()), many)
        return table.slice(0, 1).set_column(
            table.column_names.index("members"), "members", members.cast(table["members"].type)
        )

    rewrite(copy, "lifetimes/chain-0-*-living-*.parquet", swell)
    with pytest.raises(RunError, match="is damaged: it holds 20,000,000 values"):
        use(copy)


def test_a_newer_format_is_refused(good, tmp_path):
    copy = shutil.copytree(good, tmp_path / "run")
    content = json.loads((copy / "run.json").read_text())
    (copy / "run.json").write_text(json.dumps(content | {"format": 99}))
    with pytest.raises(RunError, match="format 99 is not one that smered"):
        smered.Posterior.open(copy)
