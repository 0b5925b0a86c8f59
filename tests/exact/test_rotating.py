"""Rung 2 for rotating blocks: frequencies of partitions against enumeration, no blocks given."""

import numpy as np
import pytest

from smered import rotating
from smered.execute import make_executor
from smered.pairs import RotatingBlocks
from smered.priors import ClusterSizes, Ewens, PitmanYor, UniformLabels, UniformPartitions
from smered.rotating import choose_fields
from smered.sampler import condition_prior
from smered.state import check_state, generator, start_state
from tests.exact.cases import (
    fixed_hyperparameters,
    fixed_parameters,
    fixed_tables,
    tiny_model,
    total_variation,
)
from tests.exact.reference import exact_posterior

SWEEPS = 15_000
LONGER = 4  # times as many where blocks draw their shares, which mixes slowly
CASES = {
    "labels": {"prior": UniformLabels()},
    "labels-exact-field": {"prior": UniformLabels(), "exact": True},
    "labels-two-blocks": {"prior": UniformLabels(), "blocks": 2},
    "labels-in-groups": {"prior": UniformLabels(), "blocks": 2},
    "partitions-no-duplicates": {"prior": UniformPartitions(), "duplicates": False},
    "ewens-by-file": {"prior": Ewens(2.0), "distortion": "file"},
    "pitman-yor": {"prior": PitmanYor(1.5, 0.3)},
    "cluster-sizes-text": {"prior": ClusterSizes(), "near": "text"},
    "patterns-by-block": {"prior": ClusterSizes(), "blocks": 2, "duplicates": False},
    "changing-no-duplicates": {"prior": ClusterSizes(), "changing": True, "exact": True},
}


@pytest.mark.parametrize(
    "case", [pytest.param("labels", marks=pytest.mark.smoke), *list(CASES)[1:]]
)
def test_frequencies_match_enumeration(case, monkeypatch):
    if case == "labels-in-groups":  # as blocks of many records are
        monkeypatch.setattr(rotating, "RECORDS_PER_GROUP", 2)
    model = tiny_model(pairs=RotatingBlocks(1.0, 4.0), **CASES[case])
    theta, beta = fixed_parameters(model)
    expected = exact_posterior(model, theta, beta)
    layout = model.layout(40)
    execute = make_executor(model, layout, 1)
    state = start_state(model, layout, 1, 0)
    state.theta, state.beta = np.concatenate(theta), beta
    state.hyperparameters = fixed_hyperparameters(model)
    tables = fixed_tables(model, theta, beta)
    order = model.order
    found = {}
    sweeps = SWEEPS * (LONGER if isinstance(model.prior, ClusterSizes) else 1)
    for sweep in range(sweeps):
        state.sweep = sweep + 1
        prior = condition_prior(state, model, generator(5, 1, state.sweep))
        statistics = execute.sweep(state, tables, prior, 5, 1)
        state.entities = int(statistics.entities[0])
        if sweep % 5000 == 0:
            check_state(state, model, layout)
        moved = np.empty_like(state.entity)
        moved[order] = state.entity
        first = {}
        labels = tuple(first.setdefault(label, i) for i, label in enumerate(moved.tolist()))
        found[labels] = found.get(labels, 0) + 1 / sweeps
    assert execute.layout is layout
    assert total_variation(found, expected) < 0.035


def test_fields_rotate():
    model = tiny_model(pairs=RotatingBlocks(1.0, 4.0), exact=True)
    chosen = {tuple(choose_fields(model, generator(0, 0, sweep))) for sweep in range(200)}
    assert chosen >= {(0,), (1,), (0, 1), (1, 2)}
    assert (0, 1, 2) not in chosen
