"""A linkage small enough for many runs, in several parts, and the bytes it leaves."""

import hashlib
import warnings

from smered import simulate
from smered.model import Model
from smered.priors import ClusterSizes
from smered.records import Records
from smered.run import sample

PARTS = 4
SETTINGS = {"draws": 30, "burn_in": 20, "chains": 2, "seed": 5}


def small_model(prior=None):
    data = simulate.simulate(
        {("a",): 150, ("a", "b"): 200, ("a", "a", "b"): 30}, [9, 8, 7, 12, 6], seed=3
    )
    records = Records.from_frames(data.tables, columns=data.fields, id="id", blocks=data.fields[:1])
    return Model(records, data.fields, prior=prior or ClusterSizes())


def run_into(folder, model=None, **changes):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        chosen = {"threads": 1, "parts": PARTS} | SETTINGS | changes
        sample(model or small_model(), out=folder, **chosen)
    return bytes_of(folder)


def bytes_of(folder):
    """Checksums of everything that must not depend on where a run ran."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for kind in ("records", "lifetimes", "draws", "checkpoints")
        for path in sorted((folder / kind).glob("*.parquet"))
    }


# one chain, long enough for something to happen to it after its first checkpoint
LONG = {"draws": 130, "burn_in": 20, "chains": 1}
