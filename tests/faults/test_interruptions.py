"""Runs that are killed, interrupted, extended, or run out of disk: nothing is ever lost."""

import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import smered
from smered.errors import ConfigError, RunError
from smered.simulate import simulate

ROOT = Path(__file__).parents[2]


def arguments(**more):
    data = simulate({("a",): 60, ("b",): 60, ("a", "b"): 120}, [30, 20, 10], seed=1)
    return {"frames": data.tables, "fields": data.fields, "id": "id", "draws": 130,
            "burn_in": 30, "chains": 2, "seed": 5} | more  # fmt: skip


def contents(folder):
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for kind in ("lifetimes", "draws", "records")
        for path in sorted((folder / kind).iterdir())
    }


def test_killed_at_fifty_random_moments_and_resumed(tmp_path):
    result = subprocess.run(
        [sys.executable, "-m", "tests.faults.killed", str(tmp_path)],
        cwd=ROOT, capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith("50 kills")


FIRST_COMMIT = """
import os, signal, sys
import smered.store.folder as folder
sys.path.insert(0, {root!r})
from tests.faults.test_interruptions import arguments
usual = folder.write_sealed
def write(path, content):
    if path.name == "chain-{chain}.json":
        os.kill(os.getpid(), signal.SIGKILL)
    usual(path, content)
folder.write_sealed = write
import smered
smered.link(**arguments(), out={out!r})
"""


@pytest.mark.parametrize("chain", [0, 1])
def test_killed_between_the_first_files_of_a_chain_and_its_checkpoint(chain, tmp_path):
    code = FIRST_COMMIT.format(root=str(ROOT), out=str(tmp_path / "run"), chain=chain)
    done = subprocess.run([sys.executable, "-c", code], check=False, cwd=ROOT)
    assert done.returncode == -signal.SIGKILL
    left = [path.name for path in (tmp_path / "run" / "draws").iterdir()]
    assert any(name.startswith(f"chain-{chain}-") for name in left)
    smered.resume(tmp_path / "run")
    smered.link(**arguments(), out=tmp_path / "whole")
    assert contents(tmp_path / "run") == contents(tmp_path / "whole")


def test_a_posterior_of_a_run_that_goes_on_keeps_its_draws(tmp_path):
    """Opened first, asked when newer files have taken the place of those it knew."""
    out = tmp_path / "run"
    smered.link(**arguments(draws=40), out=out)
    early = smered.Posterior.open(out)
    smered.extend(out, 30)
    assert early.entities().draws.shape == (2, 40)
    late = smered.Posterior.open(out)
    assert (early.entities().draws == late.entities().draws[:, :40]).all()
    assert (early.trace("log_posterior") == late.trace("log_posterior")[:, :40]).all()


@pytest.mark.parametrize("first", [1, 69, 70, 71])
def test_extended_runs_equal_longer_ones(first, tmp_path):
    """30 + 70 sweeps end exactly where a part file ends, the others before and after it."""
    smered.link(**arguments(draws=first), out=tmp_path / "short")
    longer = smered.extend(tmp_path / "short", 130 - first)
    whole = smered.link(**arguments(), out=tmp_path / "whole")
    assert longer.draws == whole.draws == 130
    assert contents(tmp_path / "short") == contents(tmp_path / "whole")
    again = smered.resume(tmp_path / "short")  # nothing left to do
    assert again.draws == 130
    assert contents(tmp_path / "short") == contents(tmp_path / "whole")


SCRIPT = """
import signal, smered, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # a background process ignores it
sys.path.insert(0, {root!r})
from tests.faults.test_interruptions import arguments
posterior = smered.link(**arguments(draws=100000, threads=2), out={out!r},
                        observe=lambda step: step.chain or print(step.state.sweep, flush=True))
print("draws", posterior.draws, posterior.run.draws_done(), flush=True)
"""


def test_an_interrupt_keeps_every_draw(tmp_path):
    out = tmp_path / "run"
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT.format(root=str(ROOT), out=str(out))],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT,
    )  # fmt: skip
    for line in process.stdout:
        if int(line) > 250:
            break
    process.send_signal(signal.SIGINT)
    rest, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    assert "interrupted: the run ends here and can be resumed" in errors
    assert "Traceback" not in errors
    said = rest.strip().split("\n")[-1]
    done = smered.Posterior.open(out).run.draws_done()
    assert said.endswith(str(done))
    assert max(done) > 200

    # going on from there gives the bytes of a run that never stopped
    total = max(done) + 57
    shortened = smered.store.folder.RunFolder.open(out)
    shortened.extend(total)
    smered.resume(out)
    smered.link(**arguments(draws=total), out=tmp_path / "whole")
    assert contents(out) == contents(tmp_path / "whole")


def test_a_folder_in_use_is_locked(tmp_path):
    smered.link(**arguments(draws=3), out=tmp_path / "run")
    code = (
        "import time; from pathlib import Path; from smered.store.folder import RunFolder\n"
        f"folder = RunFolder.open(Path({str(tmp_path / 'run')!r})); folder.lock()\n"
        "print('locked', flush=True); time.sleep(60)"
    )
    holder = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert holder.stdout.readline() == "locked\n"
    with pytest.raises(RunError, match="is in use by another process"):
        smered.resume(tmp_path / "run")
    holder.kill()
    holder.wait()
    assert smered.resume(tmp_path / "run").draws == 3  # the lock died with its process
    holder.stdout.close()


def test_an_existing_folder_is_never_overwritten(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "mine.txt").write_text("precious")
    with pytest.raises(ConfigError, match="exists already"):
        smered.link(**arguments(draws=3), out=tmp_path / "run")
    assert (tmp_path / "run" / "mine.txt").read_text() == "precious"


def test_not_a_run_folder(tmp_path):
    with pytest.raises(RunError, match=r"run.json is missing: is this a run folder\?"):
        smered.resume(tmp_path)


@pytest.fixture(params=[200])
def small_disk(tmp_path, request):
    """A file system of its own, full after some kilobytes."""
    place = tmp_path / "disk"
    place.mkdir()
    made = shutil.which("mount") and not subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={request.param}k", "tmpfs", str(place)],
        capture_output=True, check=False,
    ).returncode  # fmt: skip
    if not made:
        pytest.skip("no right to mount a small file system here")
    yield place
    subprocess.run(["umount", str(place)], check=True)


@pytest.mark.parametrize("small_disk", [48, 64, 72, 200], indirect=True)
def test_a_full_disk_ends_with_a_clear_error_and_a_resumable_run(small_disk, tmp_path):
    with pytest.raises(RunError, match="the disk is full: free some space, then resume the run"):
        smered.link(**arguments(draws=2000), out=small_disk / "run")
    subprocess.run(["mount", "-o", "remount,size=20m", str(small_disk)], check=True)
    posterior = smered.resume(small_disk / "run")
    assert posterior.draws == 2000
    smered.link(**arguments(draws=2000), out=tmp_path / "whole")
    assert contents(small_disk / "run") == contents(tmp_path / "whole")


def test_a_read_only_folder_is_named(small_disk):
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    with pytest.raises(RunError, match="read-only: choose another output folder"):
        smered.link(**arguments(draws=3), out=small_disk / "run")


def test_sampling_memory_does_not_grow_with_the_draws(tmp_path):
    """Resident size after many draws against after few, in one process."""
    code = """
import psutil, smered, sys, warnings
warnings.simplefilter("ignore")
sys.path.insert(0, {root!r})
from tests.faults.test_interruptions import arguments
sizes = {{}}
def observe(step):
    if step.state.sweep in (300, 4000):
        sizes[step.state.sweep] = psutil.Process().memory_info().rss
smered.link(**arguments(draws=4000, burn_in=0, chains=1), out={out!r}, observe=observe)
print((sizes[4000] - sizes[300]) / 1e6)
""".format(root=str(ROOT), out=str(tmp_path / "run"))
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    # 3,700 draws hold over 20 MB of lifetimes and parameters; what grows is noise
    assert float(result.stdout) < 8
