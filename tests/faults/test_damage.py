"""A run folder from a stranger or a failing disk: an error that names the file, never a crash."""

import hashlib
import json
import random
import shutil

import pytest

import smered
from smered.errors import RunError, SmeredError
from smered.outputs import write_outputs
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


def files(folder):
    return sorted(p for p in folder.rglob("*") if p.is_file() and p.name != "lock")


def test_the_good_folder_is_good(good, tmp_path):
    copy = shutil.copytree(good, tmp_path / "run")
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
    """Make every checksum fit again, as someone who means harm would."""
    for holder in [folder / "run.json", *folder.glob("checkpoints/*.json")]:
        try:
            content = json.loads(holder.read_text())
            receipts = content["contents" if holder.name == "run.json" else "parts"]
            for name in receipts:
                data = (folder / name).read_bytes()
                receipts[name] = {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        except (ValueError, OSError, KeyError, TypeError):
            continue
        holder.write_text(json.dumps(content))


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
    path.write_text(json.dumps(content))
    with pytest.raises(RunError, match="names a file outside the run folder"):
        smered.Posterior.open(copy)
    assert secret.exists()


def test_a_newer_format_is_refused(good, tmp_path):
    copy = shutil.copytree(good, tmp_path / "run")
    content = json.loads((copy / "run.json").read_text())
    (copy / "run.json").write_text(json.dumps(content | {"format": 99}))
    with pytest.raises(RunError, match="format 99 is not one that smered"):
        smered.Posterior.open(copy)
