"""A real Ray cluster of several nodes on this machine."""

import pytest

ray = pytest.importorskip("ray", reason="Ray is not installed: pip install 'smered[ray]'")


@pytest.fixture(scope="module")
def cluster():
    """Two nodes of two processors each; each node is a raylet of its own."""
    from ray.cluster_utils import Cluster

    running = Cluster(
        initialize_head=True,
        head_node_args={"num_cpus": 2, "include_dashboard": False},
    )
    running.add_node(num_cpus=2)
    yield running
    ray.shutdown()
    running.shutdown()
