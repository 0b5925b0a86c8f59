"""Rung 2 for joint draws of a rate and its toggles: against sums over rates and linkages."""

import itertools
import math

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

from smered.execute import make_executor
from smered.fields import Categorical
from smered.joint import doubtful_fields, draw_jointly
from smered.model import Model
from smered.priors import Ewens, UniformLabels, UniformPartitions
from smered.records import Records
from smered.sampler import Settings, condition_prior, run_chain
from smered.state import check_state, generator, start_state, tabulate
from tests.exact.cases import HandPicked, fixed_parameters, tiny_model, total_variation
from tests.exact.reference import is_legal, log_likelihood, log_prior, partitions

LISTS = [[2, 3, 4], [0, 2, 3, 4], [0, 1, 3, 4], [0, 1, 2, 4], [0, 1, 2, 3]]
DRAWS, POINTS = 12_000, 12
CASES = {
    "labels": {"prior": UniformLabels()},
    "partitions-no-duplicates": {"prior": UniformPartitions(), "duplicates": False},
    "ewens-exact": {"prior": Ewens(2.0), "exact": True},
}


def exact_posterior(model, theta):
    """Probabilities of linkages and mean rates, the rates of the free fields summed over a grid."""
    quantiles = (np.arange(POINTS) + 0.5) / POINTS
    grids = [stats.beta(part.a, part.b).ppf(quantiles) for part in model.coded[:2]]
    weights, means = {}, np.zeros(2)
    for labels in partitions(5):
        if not is_legal(labels, model):
            continue
        weights[labels] = 0.0
        for rates in itertools.product(*grids):
            beta = np.zeros((1, len(model.coded)))
            beta[0, :2] = rates
            log_weight = log_likelihood(labels, model, theta, beta) + log_prior(labels, model.prior)
            weights[labels] += math.exp(log_weight)
            means += np.multiply(rates, math.exp(log_weight))
    total = sum(weights.values())
    return {labels: weight / total for labels, weight in weights.items()}, means / total


@pytest.mark.parametrize(
    "case", [pytest.param("labels", marks=pytest.mark.smoke), *list(CASES)[1:]]
)
def test_joint_draws_leave_the_posterior_as_it_is(case):
    """Rates are drawn by joint draws alone, linkages by these and by few proposals."""
    model = tiny_model(pairs=HandPicked(LISTS), **CASES[case])
    theta, beta = fixed_parameters(model)
    layout = model.layout(3)
    execute = make_executor(model, layout, 1)
    doubtful = doubtful_fields(execute, model, worthwhile=0.0)
    assert doubtful == [0, 1]
    expected, mean_rates = exact_posterior(model, theta)
    state = start_state(model, layout, 1, 0)
    state.theta, state.beta = np.concatenate(theta), beta.copy()
    rng = np.random.default_rng(8)
    found, rates, taken = {}, np.zeros(2), 0
    for _ in range(DRAWS):
        state.sweep += 1
        for field in doubtful:
            draw_jointly(state, model, field, execute, 0, 0, rng)
            taken += int((execute._doubtful[field].shown > 0).sum())
        prior = condition_prior(state, model, generator(0, 1, state.sweep))
        tables = tabulate(state.theta, state.beta, model)
        statistics = execute.sweep(state, tables, prior, 0, 1)
        state.entities = int(statistics.entities[0])
        labels = tuple(state.entity.tolist())
        found[labels] = found.get(labels, 0) + 1 / DRAWS
        rates += state.beta[0, :2] / DRAWS
    assert taken > DRAWS
    assert total_variation(found, expected) < 0.04
    assert rates == pytest.approx(mean_rates, abs=0.015)


@pytest.mark.plain
@pytest.mark.parametrize(
    "field",
    [Categorical("f", mu={"x": 1, "y": 1, "unseen": 0.01}), Categorical("f", b=0.02),
     Categorical("f", a=0.005, b=30)],
    ids=["level-all-but-impossible", "rate-near-one", "rate-near-zero"],
)  # fmt: skip
def test_extreme_parameters_do_no_harm(field):
    table = pa.table({"f": ["x", "y"] * 6, "g": list("aabbccddeeff")})
    records = Records.from_frames(table, columns=["f", "g"])
    model = Model(records, [field, "g"], prior=UniformLabels())
    execute = make_executor(model, model.layout(), 1)
    settings = Settings(draws=100, burn_in=20, chains=1)
    for step in run_chain(model, settings, 0, execute):
        assert np.isfinite(step.state.beta).all()
        assert ((step.state.beta > 0) & (step.state.beta < 1)).all()
        check_state(step.state, model, execute.layout)
    assert doubtful_fields(execute, model)
