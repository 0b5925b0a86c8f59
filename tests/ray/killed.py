"""A run on a Ray cluster, to be killed: python -m tests.ray.killed ADDRESS FOLDER MODEL."""

import sys
from pathlib import Path

from smered.execute.on_ray import RayCluster
from tests.ray.cases import LONG, MODELS, run_into

if __name__ == "__main__":
    model = MODELS[sys.argv[3]]()
    run_into(Path(sys.argv[2]), model, execute=RayCluster(sys.argv[1]), **LONG)
