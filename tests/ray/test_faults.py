"""What is lost on a cluster is done again, with the same bytes."""

import os
import re
import signal
import subprocess
import sys
import threading
import time
import warnings

import psutil
import pytest

import smered
from smered.execute.on_ray import RayCluster
from tests.ray.cases import LONG, MODELS, bytes_of, run_into

KINDS = ["informed", "rotating"]


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    folder = tmp_path_factory.mktemp("serial")
    return {kind: run_into(folder / kind, MODELS[kind](), **LONG) for kind in KINDS}


def worker_processes(cluster):
    """The processes of our workers on a cluster, by what Ray calls them."""
    session = cluster.head_node.get_session_dir_path()
    return [
        process
        for process in psutil.process_iter(["cmdline"])
        if re.match(r"ray::\w*Worker", " ".join(process.info["cmdline"] or []))
        and session in " ".join(process.parent().cmdline())
    ]


def after_first_checkpoint(folder, act):
    """Do something, in a thread, once a run has something to go on from."""
    done = []

    def wait():
        while not (folder / "checkpoints" / "chain-0.json").exists():
            time.sleep(0.02)
        done.append(act())

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    return thread, done


@pytest.mark.parametrize("kind", KINDS)
def test_a_worker_is_killed(kind, tmp_path, cluster, expected):
    def kill():
        victim = worker_processes(cluster)[0]
        victim.send_signal(signal.SIGKILL)
        return victim.pid

    folder = tmp_path / "run"
    thread, killed = after_first_checkpoint(folder, kill)
    execute = RayCluster(cluster.address)
    assert run_into(folder, MODELS[kind](), execute=execute, **LONG) == expected[kind]
    thread.join()
    assert killed


@pytest.mark.parametrize("kind", KINDS)
def test_the_driver_is_killed_and_the_run_resumed(kind, tmp_path, cluster, expected):
    folder = tmp_path / "run"
    command = [sys.executable, "-m", "tests.ray.killed", cluster.address, str(folder), kind]
    driver = subprocess.Popen(command, env=os.environ)
    thread, _ = after_first_checkpoint(folder, driver.kill)
    assert driver.wait(timeout=120) == -signal.SIGKILL
    thread.join()
    assert bytes_of(folder) != expected[kind]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        smered.resume(folder, execute=RayCluster(cluster.address, workers=3))
    assert bytes_of(folder) == expected[kind]


def test_a_node_is_removed(tmp_path, cluster, expected):
    """The last test: four workers need both nodes, and the cluster stays smaller."""
    node = cluster.list_all_nodes()[1]
    folder = tmp_path / "run"
    thread, _ = after_first_checkpoint(
        folder, lambda: cluster.remove_node(node, allow_graceful=False)
    )
    # the cluster notices after some seconds; workers that it puts on the lost node never start
    execute = RayCluster(cluster.address, patience=20.0)
    assert run_into(folder, execute=execute, **LONG) == expected["informed"]
    thread.join()
    assert len(cluster.list_all_nodes()) == 1
