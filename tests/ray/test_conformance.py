"""Serial, threads and Ray give the same bytes, whatever the number of workers."""

import pytest

import ray
import smered
from smered.errors import ConfigError
from smered.execute.on_ray import RayCluster
from smered.execute.on_ray import cluster as cluster_module
from smered.execute.on_ray.worker import versions
from tests.ray.cases import MODELS, PARTS, bytes_of, run_into


@pytest.mark.parametrize(
    ("name", "workers"),
    [("informed", (1, 2, 4)), ("labels", (2,)), ("uniform", (4,)), ("joint-and-text", (2,)),
     ("rotating", (1, 2, 4)), ("rotating-labels", (2,)), ("rotating-no-duplicates", (3,)),
     ("rotating-in-blocks", (4,))],
)  # fmt: skip
def test_threads_and_ray_give_the_bytes_of_serial(name, workers, tmp_path, cluster):
    expected = run_into(tmp_path / "serial", MODELS[name]())
    assert len([name for name in expected if name.startswith("records/part-")]) == PARTS
    assert run_into(tmp_path / "threads", MODELS[name](), threads=2) == expected
    for number in workers:
        execute = RayCluster(cluster.address, workers=number)
        assert run_into(tmp_path / f"ray-{number}", MODELS[name](), execute=execute) == expected


def test_a_run_goes_on_elsewhere(tmp_path, cluster):
    """Extended on Ray, then on threads: the bytes of one longer serial run."""
    expected = run_into(tmp_path / "long", draws=60)
    run_into(tmp_path / "run", draws=30)
    smered.extend(tmp_path / "run", 15, execute=RayCluster(cluster.address, workers=3))
    smered.extend(tmp_path / "run", 15, threads=2)
    assert bytes_of(tmp_path / "run") == expected


def test_what_cannot_run_on_ray_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="needs a folder"):
        run_into(None, execute="ray")
    with pytest.raises(ConfigError, match="must be 'threads', 'ray' or a RayCluster"):
        run_into(tmp_path / "run", execute="spark")
    ray.shutdown()  # a connection that there is would be used
    with pytest.raises(
        ConfigError, match=r"cannot reach Ray at 127\.0\.0\.1:1: .*check the address"
    ):
        run_into(tmp_path / "run", execute=RayCluster("127.0.0.1:1"))
    assert not (tmp_path / "run").exists()


def test_workers_of_other_versions_are_refused(tmp_path, cluster, monkeypatch):
    """The driver is made to believe that it has another numba than its workers."""
    own = versions()
    monkeypatch.setattr(cluster_module, "versions", lambda: own | {"numba": "0.0.1"})
    with pytest.raises(ConfigError, match=r"a worker has numba .*, this machine 0\.0\.1"):
        run_into(tmp_path / "run", execute=RayCluster(cluster.address))
