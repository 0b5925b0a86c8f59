"""A linkage small enough for many runs, in several parts, and the bytes it leaves."""

import hashlib
import warnings

from smered import simulate
from smered.fields import Joint, Text
from smered.model import Model
from smered.pairs import RotatingBlocks, UniformPairs
from smered.priors import ClusterSizes, UniformLabels
from smered.records import Records
from smered.run import sample

PARTS = 4
FIELDS = ["f1", "f2", "f3", "f4", "f5"]
SETTINGS = {"draws": 30, "burn_in": 20, "chains": 2, "seed": 5}


def small_records(blocks=1):
    data = simulate.simulate(
        {("a",): 150, ("a", "b"): 200, ("a", "a", "b"): 30}, [9, 8, 7, 12, 6], seed=3
    )
    return Records.from_frames(
        data.tables, columns=data.fields, id="id", blocks=data.fields[:blocks]
    )


def gappy_records():
    data = simulate.simulate(
        {("a",): 150, ("b",): 100, ("a", "b"): 200}, [9, 8, 7, 12, 6], missing=0.1, seed=3
    )
    tables = {name: table.filter(table["f1"].is_valid()) for name, table in data.tables.items()}
    return Records.from_frames(tables, columns=data.fields, id="id", blocks="f1")


def small_model(prior=None):
    return Model(small_records(), FIELDS, prior=prior or ClusterSizes())


def rotating_model(prior=None, blocks=0, **settings):
    pairs = RotatingBlocks(2.0, 16.0)
    return Model(small_records(blocks), FIELDS, prior=prior or ClusterSizes(), pairs=pairs,
                 **settings)  # fmt: skip


MODELS = {
    "informed": small_model,
    "labels": lambda: small_model(UniformLabels()),
    "uniform": lambda: small_model().with_pairs(UniformPairs()),
    "joint-and-text": lambda: Model(
        small_records(), [Joint("f1", "f2"), Text("f3"), Joint("f4", "f5", mu={"extra": 2.0})]
    ),
    "patterns-by-block-changing": lambda: Model(
        gappy_records(),
        ["f2", "f3", Joint("f4", "f5", changes=True)],
        duplicates=False,
        time_order=("b", "a"),
    ),
    "labels-in-blocks": lambda: Model(small_records(1), FIELDS[1:], prior=UniformLabels()),
    "rotating": rotating_model,
    "rotating-labels": lambda: rotating_model(UniformLabels()),
    "rotating-no-duplicates": lambda: rotating_model(
        ClusterSizes(files=True), duplicates={"b": False}, distortion="file"
    ),
    "rotating-in-blocks": lambda: rotating_model(blocks=1),
}


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
