"""Rung 2, whole chain: theta, beta and the concentration sampled too, against quadrature."""

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

from smered.execute import make_executor
from smered.fields import Categorical, Text
from smered.model import Model
from smered.priors import ClusterSizes, Ewens, PitmanYor, UniformLabels
from smered.priors.sizes import SizesInFiles
from smered.records import Records
from smered.sampler import Settings, run_chain
from tests.exact.reference import log_likelihood, log_prior, partitions

A, B, MU = 1.5, 4.0, 1.2
DRAWS = 10_000


def three_records(prior):
    records = Records.from_frames(pa.table({"f": ["x", "x", "y"]}), columns=["f"])
    return Model(records, [Categorical("f", a=A, b=B, mu=MU)], prior=prior)


def three_files(prior):
    """A file that may hold somebody twice, and one that may not; another that holds nobody."""
    table = pa.table({"f": ["x", "x", "y"], "file": ["a", "a", "b"]})
    records = Records.from_frames(table, columns=["f"], file_column="file")
    fields = [Categorical("f", a=A, b=B, mu=MU)]
    return Model(records, fields, prior=prior, duplicates={"b": False})


def one_record_each(prior):
    table = pa.table({"f": ["x", "x", "y"], "file": ["a", "b", "c"]})
    records = Records.from_frames(table, columns=["f"], file_column="file")
    return Model(records, [Categorical("f", a=A, b=B, mu=MU)], prior=prior, duplicates=False)


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
    hyperparameters = grid_of(model)
    weights = {}
    for labels in partitions(3):
        likelihood = np.mean([
            np.exp(log_likelihood(labels, model, [t], np.array([[b]]), close))
            for t in thetas for b in betas for close in closenesses
        ])  # fmt: skip
        prior = np.mean([np.exp(log_prior(labels, model.prior, h, model)) for h in hyperparameters])
        weights[labels] = likelihood * prior
    total = sum(weights.values())
    return {labels: weight / total for labels, weight in weights.items()}


def grid_of(model):
    """Values of the hyperparameters, equally probable before the data."""
    prior = model.prior
    if not prior.hyperparameters:
        return [None]
    if isinstance(prior, ClusterSizes) and prior.files:
        rng, files = np.random.default_rng(1), len(model.records.files)
        sizes = len(model.partition_prior.hyperparameters) - files
        base = prior.strength * 0.5 ** np.minimum(np.arange(1, sizes + 1), sizes - 1)
        return np.hstack((rng.dirichlet(base, 2500), rng.dirichlet(np.ones(files), 2500)))
    if isinstance(prior, ClusterSizes):
        base = prior.strength * np.array([1 / 2, 1 / 4, 1 / 8, 1 / 16, 1 / 32, 1 / 64, 1 / 64])
        return np.random.default_rng(1).dirichlet(base, 40_000)
    gamma = stats.gamma(prior.shape, scale=1 / prior.rate)
    if prior.discount is not None:
        return midpoints(gamma.ppf, 2000)
    discounts = midpoints(stats.uniform.ppf, 60)
    return [(c, d) for c in midpoints(gamma.ppf, 200) for d in discounts]


@pytest.mark.smoke
@pytest.mark.parametrize("single", [(True, True), (True, False)])
def test_weights_of_files_follow_their_density(single):
    """Given cluster sizes, the weight of the first of two files has a density on a line."""
    prior = SizesInFiles(1.0, ("a", "b"), np.array([9, 4]), np.array(single))
    sizes = np.array([0, 7, 3])  # seven single records and three pairs

    def log_ways(o):  # of a pair; one record has o + (1 - o) = 1 ways
        pair = {(True, True): o * (1 - o), (True, False): o * (1 - o) + (1 - o) ** 2 / 2}
        return np.log(pair[single])

    grid = midpoints(stats.uniform.ppf, 4000)
    density = np.exp(9 * np.log(grid) + 4 * np.log(1 - grid) - 3 * log_ways(grid))
    expected = (density @ grid) / density.sum()
    spread = np.sqrt((density @ (grid - expected) ** 2) / density.sum())
    rng, values, drawn = np.random.default_rng(5), prior.start(13), []
    for _ in range(8000):
        values = prior.update(values, sizes, rng)
        drawn.append(values[-2])
    assert np.mean(drawn) == pytest.approx(expected, abs=0.006)
    assert np.std(drawn) == pytest.approx(spread, abs=0.006)
    assert values[:-2].sum() == pytest.approx(1.0)
    assert len(values) == (2 if all(single) else 8) + 2


@pytest.mark.parametrize(
    ("make", "prior"),
    [
        (three_records, UniformLabels()),
        (three_records, Ewens(rate=0.5)),
        (three_records, PitmanYor(None, 0.4, shape=2.0, rate=1.0)),
        (three_records, PitmanYor(None, None, shape=2.0, rate=1.0)),
        (three_records, ClusterSizes(strength=3.0)),
        (three_names, Ewens(1.0)),
        (three_files, ClusterSizes(strength=3.0, files=True)),
        (one_record_each, ClusterSizes(strength=3.0, files=True)),
    ],
    ids=[
        "labels",
        "ewens",
        "pitman-yor",
        "pitman-yor-discount",
        "cluster-sizes",
        "text",
        "cluster-sizes-in-some-files",
        "cluster-sizes-in-all-files",
    ],
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
