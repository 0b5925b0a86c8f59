"""A run on a Ray cluster, to be killed: python -m tests.ray.killed ADDRESS FOLDER."""

import sys
from pathlib import Path

from smered.execute.on_ray import RayCluster
from tests.ray.cases import LONG, run_into

if __name__ == "__main__":
    run_into(Path(sys.argv[2]), execute=RayCluster(sys.argv[1]), **LONG)
