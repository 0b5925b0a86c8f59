"""Rung 2, whole chain: theta, beta and the concentration sampled too, against quadrature."""

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

from smered.execute import make_executor
from smered.fields import Categorical, Text
from smered.model import Model
from smered.priors import ClusterSizes, Ewens, PitmanYor, UniformLabels
from smered.records import Records
from smered.sampler import Settings, run_chain
from tests.exact.reference import log_likelihood, log_prior, partitions

A, B, MU = 1.5, 4.0, 1.2
DRAWS = 10_000


def three_records(prior):
    records = Records.from_frames(pa.table({"f": ["x", "x", "y"]}), columns=["f"])
    return Model(records, [Categorical("f", a=A, b=B, mu=MU)], prior=prior)


def three_names(prior):
    """The same with a text, of which two values are near each other; phi is not learned."""
    values = ["anna", "anna", "anne"]
    records = Records.from_frames(pa.table({"f": values}), columns=["f"])
    return Model(records, [Text("f", threshold=0.5, scale=2.0, a=A, b=B)], prior=prior)


def midpoints(quantile, points):
    return quantile((np.arange(points) + 0.5) / points)


def exact_probabilities(model):
    """Sum the reference over a grid of equal prior probability in theta, beta and concentration."""
    thetas = [np.array([t, 1 - t]) for t in midpoints(stats.beta(MU, MU).ppf, 60)]
    closenesses = [0.0]
    if model.near.any():
        thetas, closenesses = [model.coded[0].near.share], midpoints(stats.uniform.ppf, 40)
    betas = midpoints(stats.beta(A, B).ppf, 60)
    hyperparameters = grid_of(model.prior)
    weights = {}
    for labels in partitions(3):
        likelihood = np.mean([
            np.exp(log_likelihood(labels, model, [t], np.array([[b]]), close))
            for t in thetas for b in betas for close in closenesses
        ])  # fmt: skip
        prior = np.mean([np.exp(log_prior(labels, model.prior, h)) for h in hyperparameters])
        weights[labels] = likelihood * prior
    total = sum(weights.values())
    return {labels: weight / total for labels, weight in weights.items()}


def grid_of(prior):
    """Values of the hyperparameters, equally probable before the data."""
    if not prior.hyperparameters:
        return [None]
    if isinstance(prior, ClusterSizes):
        base = prior.strength * np.array([1 / 2, 1 / 4, 1 / 8, 1 / 16, 1 / 32, 1 / 64, 1 / 64])
        return np.random.default_rng(1).dirichlet(base, 40_000)
    gamma = stats.gamma(prior.shape, scale=1 / prior.rate)
    if prior.discount is not None:
        return midpoints(gamma.ppf, 2000)
    discounts = midpoints(stats.uniform.ppf, 60)
    return [(c, d) for c in midpoints(gamma.ppf, 200) for d in discounts]


@pytest.mark.parametrize(
    ("make", "prior"),
    [
        (three_records, UniformLabels()),
        (three_records, Ewens(rate=0.5)),
        (three_records, PitmanYor(None, 0.4, shape=2.0, rate=1.0)),
        (three_records, PitmanYor(None, None, shape=2.0, rate=1.0)),
        (three_records, ClusterSizes(strength=3.0)),
        (three_names, Ewens(1.0)),
    ],
    ids=["labels", "ewens", "pitman-yor", "pitman-yor-discount", "cluster-sizes", "text"],
)
@pytest.mark.smoke
def test_chain_agrees_with_quadrature(make, prior):
    model = make(prior)
    expected = exact_probabilities(model)
    settings = Settings(draws=DRAWS, burn_in=100, chains=1, proposals=6)
    execute = make_executor(model, model.layout(6), 1)
    found = dict.fromkeys(expected, 0)
    for step in run_chain(model, settings, 0, execute):
        if step.draw is not None:
            found[tuple(step.state.entity.tolist())] += 1 / DRAWS
    # about 3,000 effective draws: a standard error of 0.009
    assert found == pytest.approx(expected, abs=0.035)
