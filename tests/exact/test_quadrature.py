"""Rung 2, whole chain: theta, beta and the concentration sampled too, against quadrature."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from scipy import special, stats

from smered.execute import make_executor
from smered.fields import Categorical, Text
from smered.model import Model
from smered.priors import ClusterSizes, Ewens, PitmanYor, UniformLabels
from smered.priors.kinds import SIZES, SizesInFiles, halving
from smered.priors.prior import KindCounts
from smered.priors.sizes import POOLING_RATE, POOLING_SHAPE
from smered.records import Records
from smered.ridge import CHANGE_A, CHANGE_B, draw_along_ridge
from smered.sampler import Settings, run_chain
from smered.state import start_state, tabulate_state
from smered.sums import as_floats
from tests.exact.reference import is_legal, log_likelihood, log_prior, partitions

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


def two_blocks(prior):
    """Two files that hold nobody twice, with a record each in either block."""
    table = pa.table({"f": ["x", "x", "x", "y"], "file": list("abab"), "block": list("1122")})
    records = Records.from_frames(table, columns=["f"], file_column="file", blocks="block")
    return Model(records, [Categorical("f", a=A, b=B, mu=MU)], prior=prior, duplicates=False)


def three_times(prior):
    """A value that may have changed from one file to the next, and back."""
    table = pa.table({"f": ["x", "y", "x"], "file": ["a", "b", "c"]})
    records = Records.from_frames(table, columns=["f"], file_column="file")
    fields = [Categorical("f", a=A, b=B, mu=MU, changes=True)]
    return Model(records, fields, prior=prior, time_order=("a", "b", "c"))


def three_names(prior):
    """The same with a text, of which two values are near each other; phi is not learned."""
    values = ["anna", "anna", "anne"]
    records = Records.from_frames(pa.table({"f": values}), columns=["f"])
    return Model(records, [Text("f", threshold=0.5, scale=2.0, a=A, b=B)], prior=prior)


def midpoints(quantile, points):
    return quantile((np.arange(points) + 0.5) / points)


def exact_probabilities(model):
    """Sum the reference over a grid of equal prior probability in theta, beta and concentration."""
    points = 12 if model.changing.any() else 60
    thetas = [np.array([t, 1 - t]) for t in midpoints(stats.beta(MU, MU).ppf, points)]
    closenesses, changes = [0.0], [np.zeros(model.change_shape)]
    if model.changing.any():
        rates = midpoints(stats.beta(CHANGE_A, CHANGE_B).ppf, 10)
        changes = [np.array([[one], [two]]) for one in rates for two in rates]
    if model.near.any():
        thetas, closenesses = [model.coded[0].near.share], midpoints(stats.uniform.ppf, 40)
    betas = midpoints(stats.beta(A, B).ppf, points)
    hyperparameters = grid_of(model)
    weights = {}
    for labels in partitions(len(model.records)):
        if not is_legal(labels, model):
            continue
        likelihood = np.mean([
            np.exp(log_likelihood(labels, model, [t], np.array([[b]]), close, change=change))
            for t in thetas for b in betas for close in closenesses for change in changes
        ])  # fmt: skip
        prior = np.mean([np.exp(log_prior(labels, model.prior, h, model)) for h in hyperparameters])
        weights[labels] = likelihood * prior
    total = sum(weights.values())
    return {labels: weight / total for labels, weight in weights.items()}


def grid_of(model):
    """Values of the hyperparameters, equally probable before the data."""
    prior = model.prior
    if isinstance(prior, ClusterSizes):  # shares of a single block are summed out anyway
        rng, kinds = np.random.default_rng(1), model.partition_prior.kinds
        shares = rng.dirichlet(kinds.mass, 2500)
        pooling = rng.gamma(POOLING_SHAPE, 1 / POOLING_RATE, (2500, len(model.block_sizes) - 1))
        numbers = [rng.dirichlet(halving(SIZES, prior.strength), 2500)] * (
            len(kinds.others) // SIZES
        )
        return np.hstack((shares, pooling, *numbers))
    if not prior.hyperparameters:
        return [None]
    gamma = stats.gamma(prior.shape, scale=1 / prior.rate)
    if prior.discount is not None:
        return midpoints(gamma.ppf, 2000)
    discounts = midpoints(stats.uniform.ppf, 60)
    return [(c, d) for c in midpoints(gamma.ppf, 200) for d in discounts]


@pytest.mark.smoke
@pytest.mark.parametrize("single", [(True, True), (True, False)])
def test_weights_of_files_follow_their_density(single):
    """Given cluster sizes, the weight of the first of two files has a density on a line."""
    kinds = SizesInFiles(1.0, ("a", "b"), np.array([9, 4]), np.array(single))
    sizes = np.array([0, 7, 3])  # seven single records and three pairs

    def log_ways(o):  # of a pair; one record has o + (1 - o) = 1 ways
        pair = {(True, True): o * (1 - o), (True, False): o * (1 - o) + (1 - o) ** 2 / 2}
        return np.log(pair[single])

    grid = midpoints(stats.uniform.ppf, 4000)
    density = np.exp(9 * np.log(grid) + 4 * np.log(1 - grid) - 3 * log_ways(grid))
    expected = (density @ grid) / density.sum()
    spread = np.sqrt((density @ (grid - expected) ** 2) / density.sum())
    rng, values, drawn = np.random.default_rng(5), kinds.start(), []
    for _ in range(8000):
        values = kinds.update(values, KindCounts(np.zeros(0), sizes[None]), rng)
        drawn.append(values[0])
    assert np.mean(drawn) == pytest.approx(expected, abs=0.006)
    assert np.std(drawn) == pytest.approx(spread, abs=0.006)
    assert values.sum() == pytest.approx(1.0)
    assert len(kinds.names) == (2 if all(single) else 8)


@pytest.mark.smoke
def test_pooling_and_common_shares_follow_their_density():
    """Given the linkage of three blocks, against many draws from before the data, weighted."""
    rng = np.random.default_rng(3)
    people = [["a", "b", "ab", "ab", "ab"], ["a", "a", "a", "b", "ab"], ["b", "b", "b", "ab", "a"]]
    rows = sorted(
        (file, str(block), number)
        for block, own in enumerate(people) for number, one in enumerate(own) for file in one
    )  # fmt: skip
    table = pa.table({"f": ["x"] * len(rows), "file": [file for file, _, _ in rows],
                      "block": [block for _, block, _ in rows]})  # fmt: skip
    records = Records.from_frames(table, columns=["f"], file_column="file", blocks="block")
    model = Model(records, ["f"], duplicates=False)
    prior, kinds = model.partition_prior, model.partition_prior.kinds
    counts = np.array([[own.count(kind) for kind in ("a", "b", "ab")] for own in people])

    shares = rng.dirichlet(kinds.mass, 400_000)
    pooling = rng.gamma(POOLING_SHAPE, 1 / POOLING_RATE, 400_000)
    base = (pooling[:, None] * shares)[:, None, :]
    log_weight = (special.gammaln(base + counts) - special.gammaln(base)).sum(axis=(1, 2))
    log_weight += 3 * special.gammaln(pooling)
    log_weight -= special.gammaln(pooling[:, None] + counts.sum(axis=1)).sum(axis=1)
    weight = np.exp(log_weight - np.nanmax(log_weight))
    weight = np.where(np.isnan(weight), 0.0, weight) / np.nansum(weight)
    expected = [weight @ np.log(pooling), weight @ shares[:, 0], weight @ shares[:, 2]]

    execute = make_executor(model, model.layout(), 1)
    state = start_state(model, execute.layout, 1, 0)  # every record alone: link them by hand
    first = {}
    entity = [first.setdefault(rows[r][1:], i) for i, r in enumerate(model.order.tolist())]
    state.entity, values, found = np.array(entity, np.int32), prior.start(len(rows)), []
    assert execute.kinds(state).shares.tolist() == counts.sum(axis=0).tolist()
    for sweep in range(20_000):
        state.sweep = sweep
        pooled = execute.pool(state, prior.base(values), 1, 0)
        values = prior.update(values, execute.kinds(state), pooled, rng)
        found.append([np.log(values[3]), values[0], values[2]])
    assert np.mean(found, axis=0) == pytest.approx(expected, abs=0.06)


@pytest.mark.smoke
def test_rates_along_the_ridge_follow_their_density():
    """Given the linkage, one step of change: the density of both rates on a grid."""
    values = ["x", "x", "y", "x", "y", "y", "x", "x"]
    table = pa.table({"f": values, "file": ["a", "b"] * 4})
    records = Records.from_frames(table, columns=["f"], file_column="file")
    fields = [Categorical("f", a=A, b=B, mu=MU, changes=True)]
    model = Model(records, fields, time_order=("a", "b"), prior=Ewens(1.0))
    execute = make_executor(model, model.layout(), 1)
    state = start_state(model, execute.layout, 1, 0)
    pairs = [0, 0, 1, 1, 2, 2, 3, 3]
    first = {}
    labels = np.array(pairs)[model.order]
    named = [first.setdefault(label, i) for i, label in enumerate(labels.tolist())]
    state.entity, theta = np.array(named, np.int32), np.array([0.4, 0.6])
    state.theta = theta
    betas, changes = (
        midpoints(stats.beta(A, B).ppf, 80),
        midpoints(stats.beta(CHANGE_A, CHANGE_B).ppf, 80),
    )
    weight = np.array([
        [np.exp(log_likelihood(pairs, model, [theta], np.array([[b]]), change=np.array([[c]])))
         for c in changes] for b in betas
    ])  # fmt: skip
    weight /= weight.sum()
    expected = [weight.sum(axis=1) @ betas, weight.sum(axis=0) @ changes]
    rng, found = np.random.default_rng(2), []
    state.change[:] = 0.1
    for sweep in range(12_000):
        # a step across lines, by Metropolis: the ridge alone does not leave its line
        there = replace(state, beta=state.beta.copy(), change=state.change.copy())
        there.beta[0, 0], there.change[0, 0] = rng.beta(A, B), rng.beta(CHANGE_A, CHANGE_B)
        now, then = (
            as_floats(execute.weigh_field(one, tabulate_state(one, model), 0))
            for one in (state, there)
        )
        if sweep % 4 == 0 and np.log(rng.random()) < then - now:
            state = there
        draw_along_ridge(state, model, 0, execute, rng)
        found.append([state.beta[0, 0], state.change[0, 0]])
    assert np.mean(found, axis=0) == pytest.approx(expected, abs=0.012)


@pytest.mark.parametrize(
    ("make", "prior"),
    [
        (three_records, UniformLabels()),
        (three_records, Ewens(rate=0.5)),
        (three_records, PitmanYor(None, 0.4, shape=2.0, rate=1.0)),
        (three_records, PitmanYor(None, None, shape=2.0, rate=1.0)),
        (three_records, ClusterSizes(strength=3.0)),
        (three_names, Ewens(1.0)),
        (three_files, ClusterSizes(strength=3.0)),
        (one_record_each, ClusterSizes(strength=3.0)),
        (one_record_each, ClusterSizes(strength=3.0, files=False)),
        (two_blocks, ClusterSizes()),
        (two_blocks, ClusterSizes(strength=3.0, files=False)),
        (three_times, Ewens(1.0)),
    ],
    ids=[
        "labels",
        "ewens",
        "pitman-yor",
        "pitman-yor-discount",
        "cluster-sizes",
        "text",
        "cluster-sizes-in-some-files",
        "patterns-of-files",
        "cluster-sizes-conditioned",
        "patterns-by-block",
        "cluster-sizes-by-block",
        "changing",
    ],
)
@pytest.mark.smoke
def test_chain_agrees_with_quadrature(make, prior):
    model = make(prior)
    expected = exact_probabilities(model)
    settings = Settings(draws=DRAWS, burn_in=100, chains=1, proposals=6)
    order = np.argsort(model.order)
    execute = make_executor(model, model.layout(6), 1)
    found = dict.fromkeys(expected, 0)
    for step in run_chain(model, settings, 0, execute):
        if step.draw is not None:
            labels, first = step.state.entity[order].tolist(), {}
            named = tuple(first.setdefault(label, i) for i, label in enumerate(labels))
            found[named] += 1 / DRAWS
    # about 3,000 effective draws: a standard error of 0.009
    assert found == pytest.approx(expected, abs=0.035)
