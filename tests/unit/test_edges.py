"""Sizes at the edge: huge clusters, many files, many levels, single records, nothing to see."""

import warnings

import numpy as np
import pyarrow as pa
import pytest

from smered.errors import DataWarning
from smered.execute import make_executor
from smered.fields import Categorical, Text
from smered.model import Model
from smered.pairs import UniformPairs
from smered.priors import Ewens, UniformPartitions
from smered.records import Records
from smered.run import sample
from smered.sampler import Settings, run_chain
from smered.state import check_state


def run(model, *, draws=3, chain=0, proposals=None):
    """Run a few sweeps, checking the state after each."""
    layout = model.layout(proposals)
    execute = make_executor(model, layout, 1)
    settings = Settings(draws=draws, burn_in=0, chains=1, proposals=proposals)
    for step in run_chain(model, settings, chain, execute):
        check_state(step.state, model, layout)
        assert np.isfinite(step.log_posterior)
    return step.state


def make(columns, fields=("f",), blocks=(), file_column=None, **settings):
    table = pa.table(columns)
    read = Records.from_frames(table, columns=fields, blocks=blocks, file_column=file_column)
    return Model(read, fields, **settings)


def test_five_thousand_identical_records():
    model = make({"f": ["x"] * 5000, "g": ["y"] * 5000}, ("f", "g"), prior=UniformPartitions())
    state = run(model, proposals=200)
    assert state.entities < 100  # it starts as one cluster and sheds little of it


def test_a_large_cluster_of_differing_records():
    rng = np.random.default_rng(0)
    model = make({"f": rng.integers(0, 500, 3000)}, prior=Ewens(0.01))
    run(model, proposals=200)


def test_a_field_that_is_never_distorted_does_not_outweigh_all_others():
    """Two entities of ninety records agree in the exact field alone; they stay apart."""
    columns = {"year": ["y0"] * 180 + [f"y{i + 1}" for i in range(800)]}
    for name in "abcd":
        others = [f"{name}{3 + i // 40}" for i in range(800)]
        columns[name] = [f"{name}1"] * 90 + [f"{name}2"] * 90 + others
    fields = [Categorical("year", b=np.inf), *"abcd"]
    records = Records.from_frames(pa.table(columns), columns=list(columns))
    model = Model(records, fields, prior=Ewens(5.0))
    state = run(model, draws=5)
    entity = np.empty_like(state.entity)
    entity[model.order] = state.entity
    assert not set(entity[:90]) & set(entity[90:180])


@pytest.mark.plain  # bounds are checked there
def test_a_text_without_similar_values_shown_by_a_whole_block():
    """Their twins are no neighbours, and need no room: the kernels check no bounds."""
    columns = {"w": ["alpha"] * 80, "g": [f"v{i % 2}" for i in range(80)], "h": ["q"] * 80}
    records = Records.from_frames(pa.table(columns), columns=list(columns))
    model = Model(records, [Text("w", a=1, b=50), "h"], prior=Ewens(0.05))
    run(model, draws=3, proposals=30)


@pytest.mark.parametrize("duplicates", [True, False])
def test_two_hundred_files(duplicates):
    n = 1000
    columns = {"file": [f"file {i % 200}" for i in range(n)], "f": [i % 7 for i in range(n)],
               "g": [i % 11 for i in range(n)]}  # fmt: skip
    model = make(columns, ("f", "g"), file_column="file", duplicates=duplicates, distortion="file")
    run(model)
    posterior = sample(model, draws=3, burn_in=0, chains=2)
    assert posterior.overlap().draws.sum(axis=0).tolist() == posterior.entities().draws.tolist()


def test_a_million_levels():
    n = 1_000_500
    values = np.concatenate((np.arange(n - 500), np.arange(500)))
    model = make({"f": values, "g": values % 3}, ("f", "g"))
    state = run(model, draws=1, proposals=10_000)
    assert len(model.mu) == 1_000_003
    assert state.entities <= n


def test_one_level():
    run(make({"f": ["x"] * 6}))


def test_one_record():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert run(make({"f": ["x"]})).entities == 1


def test_blocks_of_one_record():
    model = make({"f": ["x", "x", "x"], "b": ["1", "2", "3"]}, blocks="b")
    assert run(model).entities == 3
    assert (
        run(make({"f": ["x", "x", "x"], "b": ["1", "2", "2"]}, blocks="b"), draws=20).entities >= 2
    )


@pytest.mark.parametrize("pairs", [UniformPairs(), None])
def test_an_all_missing_field(pairs):
    settings = {} if pairs is None else {"pairs": pairs}
    model = make({"f": pa.nulls(6), "g": list("xxyyzz")}, ("f", "g"), **settings)
    with pytest.warns(DataWarning, match="missing in every record"):
        run(model)


def test_every_value_missing():
    model = make({"f": pa.nulls(6)})
    with pytest.warns(DataWarning):
        run(model, draws=20)


def test_a_million_levels_all_different_warns():
    with pytest.warns(DataWarning, match="different value in every record"):
        run(make({"f": np.arange(50)}))


@pytest.mark.parametrize("chain", range(5))
def test_every_start_is_legal(chain):
    rng = np.random.default_rng(1)
    n = 200
    columns = {"file": rng.choice(["a", "b", "c"], n), "b": rng.integers(0, 4, n),
               "f": rng.integers(0, 3, n), "g": rng.integers(0, 3, n)}  # fmt: skip
    model = make(columns, ("b", "f", "g"), "b", "file", duplicates={"a": False, "b": False})
    run(model, chain=chain)
