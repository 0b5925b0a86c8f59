"""Real runs, in memory and on disk: what a posterior says of them."""

import json
import os
import signal
import warnings

import arviz
import numpy as np
import pytest

import smered
from smered.errors import ConfigError, ConvergenceWarning
from smered.posterior.canonical import true_value_probabilities
from smered.posterior.evidence import field_draw
from smered.simulate import simulate
from smered.state import tabulate


@pytest.fixture(scope="module")
def data():
    overlap = {("a",): 20, ("b",): 15, ("a", "b"): 40, ("a", "b", "c"): 10}
    return simulate(overlap, {"f": 12, "g": 9, "h": 5, "key": 3}, missing=0.03, seed=6)


def arguments(data, **more):
    tables = {name: table.filter(table["key"].is_valid()) for name, table in data.tables.items()}
    return {
        "frames": tables,
        "fields": ["key", "f", "g", "h"],
        "id": "id",
        "blocks": "key",
        "draws": 40,
        "burn_in": 20,
        "chains": 2,
        "seed": 3,
    } | more


@pytest.fixture(scope="module")
def posterior(data):
    return smered.link(**arguments(data))


def test_traces_agree_with_the_linkage(posterior):
    assert posterior.trace("entities").tolist() == posterior.entities().draws.tolist()
    assert posterior.beta.shape == (2, 40, 1, 4)
    assert (posterior.beta[..., 0] == 0).all()  # the block column is exact
    assert {name: t.shape[2] for name, t in posterior.theta.items()}["key"] == 3
    for values in posterior.theta.values():
        assert np.allclose(values.sum(axis=2), 1)
    assert "Posterior of" in repr(posterior)


def test_true_values_and_distortions_fit_the_data(posterior):
    codes = np.stack([part.codes for part in posterior.model.coded], axis=1)
    for chain, draw in [(0, 0), (1, 17), (1, 39)]:
        view = posterior.at(chain, draw)
        y, z, entity = view.true_values, view.distorted, view.linkage
        assert (y == y[entity]).all()  # one value per entity
        assert (z[codes < 0] == -1).all()
        assert (z[(codes >= 0) & (codes != y)] == 1).all()
        assert (z[:, 0] <= 0).all()  # exact field
        for field in range(4):
            for name in np.unique(entity):
                shown = codes[entity == name, field] >= 0
                assert (y[name, field] >= 0) == shown.any()
        again = posterior.at(chain, draw)
        assert (again.true_values == y).all()
        assert (again.distorted == z).all()
    assert (posterior.true_values(0, 0) == posterior.at(0, 0).true_values).all()
    assert (posterior.distorted(0, 0) == posterior.at(0, 0).distorted).all()


def test_expectation_is_the_mean_over_draws(posterior):
    found = posterior.expectation(lambda view: [len(view.entities), view.beta[0, 1]])
    assert found.draws.shape == (2, 40, 2)
    assert found.mean[0] == pytest.approx(posterior.entities().mean)
    assert found.mean[1] == pytest.approx(posterior.beta[:, :, 0, 1].mean())
    assert (found.mcse > 0).all()
    some = posterior.expectation(lambda view: len(view.entities), draws=5)
    assert some.draws.shape == (2, 5)
    distorted = posterior.expectation(lambda view: (view.distorted == 1).mean(axis=0), draws=10)
    assert distorted.mean.shape == (4,)


def test_attributes_add_up_to_the_entities(posterior):
    by_level = posterior.attributes("f", draws=None)
    assert by_level.draws.sum(axis=0).tolist() == posterior.entities().draws.tolist()
    by_pattern = posterior.attributes("f", by="overlap", draws=None)
    overlap = posterior.overlap()
    for pattern, counts in overlap.items():
        rows = [i for i, (group, _) in enumerate(by_pattern.kinds) if group == pattern]
        assert by_pattern.draws[rows].sum(axis=0).tolist() == counts.draws.tolist()
    by_field = posterior.attributes("f", by="key", draws=7)
    assert by_field.draws.shape[1:] == (2, 7)
    for wrong in ("ff", "overlap"):
        with pytest.raises(ConfigError, match=f"no field '{wrong}'"):
            posterior.attributes(wrong)
    with pytest.raises(ConfigError, match="draws = 0"):
        posterior.attributes("f", draws=0)


@pytest.mark.parametrize("distortion", ["field", "file"])
def test_canonical_values_equal_brute_force(data, distortion):
    posterior = smered.link(**arguments(data, draws=6, distortion=distortion))
    model, column = posterior.model, 1
    estimate = posterior.estimate()
    theta = posterior.theta["f"].reshape(12, -1)
    beta = posterior.beta.reshape(12, model.rate_rows, 4)
    draws = [field_draw(posterior, column, chain, draw) for chain in range(2) for draw in range(6)]
    owner, level, probability = true_value_probabilities(estimate.entity, column, model, draws)
    codes = model.coded[column].codes
    rows = model.records.file if model.rate_rows > 1 else np.zeros(len(codes), int)
    for cell in range(0, len(owner), 7):
        members = np.flatnonzero(estimate.entity == owner[cell])
        expected = []
        for t, b in zip(theta, beta, strict=True):
            rates = b[rows[members], column]
            shown = [(x, r) for x, r in zip(codes[members], rates, strict=True) if x >= 0]
            joint = [
                t[v] * np.prod([(1 - r) * (x == v) + r * t[x] for x, r in shown])
                for v in range(len(t))
            ]
            expected.append(joint[level[cell]] / sum(joint))
        assert probability[cell] == pytest.approx(np.mean(expected))
    table = posterior.canonical(draws=6)
    assert len(table) == len(estimate)
    assert set(table.column_names) >= {"entity_id", "f", "f: probability"}
    assert 0 <= min(filter(None, table["f: probability"].to_pylist())) <= 1
    whole = posterior.true_value_probabilities("f", estimate, draws=6)
    assert len(whole) == len(owner)
    first = {row["entity_id"]: row for row in reversed(whole.to_pylist())}
    named = [row for row in table.to_pylist() if row["f"] is not None]
    assert {name: row["value"] for name, row in first.items()} == {
        row["entity_id"]: row["f"] for row in named
    }
    assert [first[row["entity_id"]]["probability"] for row in named] == pytest.approx(
        [row["f: probability"] for row in named]
    )
    with pytest.raises(ConfigError, match="no field 'ff'"):
        posterior.true_value_probabilities("ff")


def test_diagnostics_and_their_verdict(posterior):
    found = posterior.diagnostics()
    names = found.table["name"].to_pylist()
    assert {"entities", "log_posterior", "beta[f]", "overlap[a, b]"} <= set(names)
    assert "beta[key]" not in names
    assert 0 < found.acceptance["merges"] < 1
    assert 0 <= found.pair_disagreement <= 1
    assert any("independent ones" in warning for warning in found.warnings)
    assert found.sentence.startswith("Not to be relied on yet: ")


def test_a_run_that_is_too_short_warns(data):
    with pytest.warns(ConvergenceWarning, match="use more draws"):
        smered.link(**arguments(data, draws=5))


def test_datatree_is_what_arviz_takes(posterior, tmp_path):
    tree = posterior.to_datatree()
    assert tree["posterior"].sizes["chain"] == 2
    assert tree["posterior"]["beta"].dims == ("chain", "draw", "field")
    assert tree["posterior"]["field"].values.tolist() == ["f", "g", "h"]
    assert tree["posterior"]["theta_key"].coords["level_key"].values.tolist() == [
        "0",
        "1",
        "2",
    ]
    tree.to_netcdf(tmp_path / "draws.nc", engine="h5netcdf")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # ArviZ 1 takes the tree as it is, 0.23 by way of from_datatree
        data = arviz.from_datatree(tree) if hasattr(arviz, "from_datatree") else tree
        summary = arviz.summary(data, var_names=["entities", "beta", "overlap"])
        assert summary.loc["entities", "mean"] == pytest.approx(posterior.entities().mean, abs=0.01)
        axes = arviz.plot_trace(data, var_names=["entities", "beta"])
    assert axes is not None


def test_an_interrupt_in_memory_keeps_the_chains_that_ran(data):
    def interrupt(step):
        if step.state.sweep == 30:
            os.kill(os.getpid(), signal.SIGINT)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # test runners may ignore it
    try:
        with pytest.warns(UserWarning, match="keeps the draws made so far"):
            posterior = smered.link(
                **arguments(data, draws=5000, chains=3, threads=1, observe=interrupt)
            )
    finally:
        signal.signal(signal.SIGINT, before)
    assert posterior.chains == 1
    assert 5 <= posterior.draws < 5000
    assert posterior.entities().draws.shape == (1, posterior.draws)


def test_what_a_folder_cannot_describe_is_refused_before_sampling(data, tmp_path):
    class Mine(smered.UniformPairs):
        pass

    with pytest.raises(ConfigError, match="Mine cannot be kept in a run folder"):
        smered.link(**arguments(data, pairs=Mine(), out=tmp_path / "run"))
    assert not (tmp_path / "run").exists()


def test_fingerprints_tell_inputs_apart(data, tmp_path):
    posterior = smered.link(**arguments(data, draws=4, out=tmp_path / "run"))
    inputs = posterior.run.content.model_dump()["inputs"]
    assert inputs["a"]["records"] == (posterior.records.file == 0).sum()
    assert len({entry["sha256"] for entry in inputs.values()}) == 3


def test_settings_that_do_not_exist_are_refused(data):
    with pytest.raises(ConfigError, match="unknown setting 'drwas'"):
        smered.link(**arguments(data, drwas=3))


def test_a_run_in_a_folder_equals_one_in_memory(data, posterior, tmp_path):
    stored = smered.link(**arguments(data, out=tmp_path / "run"))
    for name in ("lifetimes", "draws"):
        assert len(stored.run.read(name)) == len(posterior.run.read(name))
    for chain, draw in [(0, 0), (1, 39)]:
        assert (stored.linkage(chain, draw) == posterior.linkage(chain, draw)).all()
    assert (stored.beta == posterior.beta).all()
    opened = smered.Posterior.open(tmp_path / "run")
    assert (opened.linkage(1, 39) == posterior.linkage(1, 39)).all()
    assert opened.records.files == posterior.records.files
    assert opened.records.position("a", 3) == posterior.records.position("a", 3)
    assert (opened.true_values(1, 5) == posterior.true_values(1, 5)).all()
    content = json.loads((tmp_path / "run" / "run.json").read_text())
    assert content["settings"]["seed"] == 3
    assert content["model"]["prior"] == {
        "type": "ClusterSizes",
        "strength": 1.0,
        "files": True,
        "blocks": True,
    }
    assert content["model"]["fields"][0] == {
        "type": "Categorical", "column": "key", "a": 1.0, "b": None, "mu": 1.0, "changes": False
    }  # fmt: skip


def test_tabulate_keeps_products_in_range(posterior):
    tables = tabulate(
        np.full(len(posterior.model.mu), 1e-6), np.full((1, 4), 1e-9), posterior.model
    )
    assert tables.small * np.log(1e15) <= 330
