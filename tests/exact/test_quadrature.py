"""Rung 2, whole chain: theta, beta and the concentration sampled too, against quadrature."""

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

from smered.execute import make_executor
from smered.fields import Categorical
from smered.model import Model
from smered.priors import Ewens, PitmanYor, UniformLabels
from smered.records import Records
from smered.sampler import Settings, run_chain
from tests.exact.reference import log_likelihood, log_prior, partitions

A, B, MU = 1.5, 4.0, 1.2
DRAWS = 10_000


def three_records(prior):
    records = Records.from_frames(pa.table({"f": ["x", "x", "y"]}), columns=["f"])
    return Model(records, [Categorical("f", a=A, b=B, mu=MU)], prior=prior)


def midpoints(quantile, points):
    return quantile((np.arange(points) + 0.5) / points)


def exact_probabilities(model):
    """Sum the reference over a grid of equal prior probability in theta, beta and concentration."""
    thetas = midpoints(stats.beta(MU, MU).ppf, 60)
    betas = midpoints(stats.beta(A, B).ppf, 60)
    concentrations = [None]
    if model.prior.hyperparameters:
        gamma = stats.gamma(model.prior.shape, scale=1 / model.prior.rate)
        concentrations = midpoints(gamma.ppf, 2000)
    weights = {}
    for labels in partitions(3):
        likelihood = np.mean([
            np.exp(log_likelihood(labels, model, [np.array([t, 1 - t])], np.array([[b]])))
            for t in thetas for b in betas
        ])  # fmt: skip
        prior = np.mean([np.exp(log_prior(labels, model.prior, c)) for c in concentrations])
        weights[labels] = likelihood * prior
    total = sum(weights.values())
    return {labels: weight / total for labels, weight in weights.items()}


@pytest.mark.parametrize(
    "prior",
    [UniformLabels(), Ewens(rate=0.5), PitmanYor(None, 0.4, shape=2.0, rate=1.0)],
    ids=["labels", "learned-ewens", "learned-pitman-yor"],
)
@pytest.mark.smoke
def test_chain_agrees_with_quadrature(prior):
    model = three_records(prior)
    expected = exact_probabilities(model)
    settings = Settings(draws=DRAWS, burn_in=100, chains=1, proposals=6)
    execute = make_executor(model, model.layout(6), 1)
    found = dict.fromkeys(expected, 0)
    for step in run_chain(model, settings, 0, execute):
        if step.draw is not None:
            found[tuple(step.state.entity.tolist())] += 1 / DRAWS
    # about 3,000 effective draws: a standard error of 0.009
    assert found == pytest.approx(expected, abs=0.035)
