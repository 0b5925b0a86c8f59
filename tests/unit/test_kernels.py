"""Kernels run as plain Python or compiled: candidates, clusters of any size, whole sweeps."""

import numpy as np
import pyarrow as pa
import pytest

from smered.execute import make_executor
from smered.model import Model
from smered.pairs import RotatingBlocks
from smered.priors import Ewens
from smered.records import Records
from smered.sampler import Settings, run_chain
from smered.state import check_state

pytestmark = pytest.mark.plain


def make(n=40, files=3, **settings):
    rng = np.random.default_rng(8)
    table = pa.table({
        "file": [str(i % files) for i in range(n)],
        "block": [i % 2 for i in range(n)],
        "f": pa.array(rng.integers(0, 3, n), mask=rng.random(n) < 0.1),
        "g": rng.integers(0, 4, n),
        "h": rng.integers(0, 2, n),
    })  # fmt: skip
    records = Records.from_frames(
        table, columns=["block", "f", "g", "h"], file_column="file", blocks="block"
    )
    return Model(records, ["block", "f", "g", "h"], **settings)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"duplicates": False, "distortion": "file"},
        {"prior": Ewens(0.05)},
        {"pairs": RotatingBlocks(1.0, 4.0)},
    ],
    ids=["labels", "no-duplicates", "large-clusters", "rotating"],
)
def test_sweeps_keep_the_state_valid(settings):
    model = make(**settings)
    layout = model.layout(30)
    execute = make_executor(model, layout, 1)
    moved = np.zeros(6, np.int64)
    for step in run_chain(model, Settings(draws=8, burn_in=0, chains=1), 2, execute):
        check_state(step.state, model, layout)
        moved += step.moves
    kinds = 2 if "pairs" in settings else 3  # rotating blocks propose no transfers
    assert (moved[: 2 * kinds : 2] > 0).all()  # every move was proposed
    assert moved[1::2].sum() > 0


def test_large_groups_of_equal_records_are_sampled():
    table = pa.table({"f": ["x"] * 60, "file": ["a"] * 40 + ["b"] * 20})
    records = Records.from_frames(table, columns=["f"], file_column="file")
    model = Model(records, ["f"], duplicates={"a": False})
    layout = model.layout()
    counts = np.diff(layout.candidate_start)
    assert counts.max() <= model.pairs.candidates
    source = np.repeat(np.arange(60), counts)
    assert not ((source < 40) & (layout.candidates < 40)).any()
