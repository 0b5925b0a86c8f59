"""A run folder from a stranger: no link, pipe or claim in it does harm."""

import json
import os
import shutil

import numpy as np
import pyarrow as pa
import pytest

import smered
from smered.errors import RunError, SmeredError
from smered.store.schema import seal
from tests.faults.folders import rewrite, rewrite_json, use


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
