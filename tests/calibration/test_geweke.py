"""Rung 3: alternate sweeps with fresh data from the model; parameters must keep their prior.

Geweke's successive-conditional simulator: if each sweep leaves the posterior unchanged and the data
are redrawn given the state, then linkage, distortion rates and level probabilities are draws from
their prior, which is known exactly. A wrong acceptance ratio, count or draw anywhere shows here.
"""

from copy import deepcopy
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

from smered.execute import make_executor
from smered.fields import Categorical, Number
from smered.model import Model
from smered.priors import ClusterSizes, Ewens, PitmanYor, UniformLabels
from smered.priors.sizes import POOLING_RATE, POOLING_SHAPE
from smered.records import Records
from smered.ridge import CHANGE_A, CHANGE_B
from smered.sampler import Settings, keep_counts, run_chain
from smered.simulate import observe
from smered.state import tabulate_state
from tests.exact.reference import channel, is_legal, log_prior, partitions

A, B, MU, LEVELS = 2.0, 3.0, 1.5, 3
ROUNDS, THIN = 16_000, 6
OTHER_CHAIN = 9

CASES = {
    "labels": {"prior": UniformLabels()},
    "labels-no-duplicates": {"prior": UniformLabels(), "duplicates": False},
    "labels-two-blocks": {"prior": UniformLabels(), "blocks": ["1", "1", "1", "2", "2"]},
    "pitman-yor-by-file": {"prior": PitmanYor(1.0, 0.4), "distortion": "file"},
    "ewens-missing": {"prior": Ewens(1.5), "missing": [(0, 0), (3, 1), (4, 0)]},
    "classes": {"prior": Ewens(1.5), "classes": 2},
    "changing": {"prior": Ewens(1.5), "changing": True, "time_order": ("B", "C", "A")},
    "changing-by-file": {
        "prior": Ewens(1.5),
        "changing": True,
        "time_order": ("C", "A", "B"),
        "distortion": "file",
        "missing": [(1, 1)],
    },
    "patterns-by-block": {
        "prior": ClusterSizes(),
        "duplicates": False,
        "blocks": ["1", "1", "1", "2", "2"],
    },
    "text": {"prior": Ewens(1.5), "near": True},
}


def make_model(blocks=("1",) * 5, missing=(), near=False, changing=False, **settings):
    table = pa.table({"file": ["A", "A", "B", "B", "C"], "block": list(blocks),
                      "f": ["0", "1", "2", "0", "1"], "g": ["0", "1", "2", "0", "1"]})  # fmt: skip
    records = Records.from_frames(table, columns=["f", "g"], file_column="file", blocks="block")
    fields = [Categorical(name, a=A, b=B, mu=MU) for name in ("f", "g")]
    if near:  # of 0, 1 and 2, neighbours are near; distorted values stay among these
        fields[1] = Number("g", within=1, scale=1.0, may_equal=True, a=A, b=B)
    if changing:
        fields[1] = replace(fields[1], changes=True)
    return Model(records, fields, **settings)


def successive_conditional(model, missing=()):
    """Yield (linkage, beta, theta) while data are redrawn after every sweep."""
    layout = model.layout(8)
    lost = np.zeros(layout.values.shape, bool)
    for record, field in missing:
        lost[record, field] = True
    observed = (~lost).sum(axis=0)
    if model.rate_rows > 1:
        file = layout.cell_file[layout.cell]
        observed = np.stack([(~lost)[file == f].sum(axis=0) for f in range(model.rate_rows)])
    object.__setattr__(model, "observed", np.broadcast_to(observed, model.observed.shape).copy())
    execute = make_executor(model, layout, 1)
    rng = np.random.default_rng(3)
    rows = layout.rate_row[layout.cell_file[layout.cell]]
    file_of_record = layout.cell_file[layout.cell]
    for step in run_chain(model, Settings(draws=ROUNDS, burn_in=0, chains=1), 1, execute):
        state = step.state
        yield deepcopy(state)
        theta = [state.theta[:LEVELS], state.theta[LEVELS:]]
        truth = np.stack([rng.choice(LEVELS, 5, p=t) for t in theta], axis=1)
        if model.classes > 1:
            group = rng.choice(2, 5, p=state.class_weight)
            own = [state.class_theta[:LEVELS], state.class_theta[LEVELS:]]
            truth = np.array([[rng.choice(LEVELS, p=t[:, c]) for t in own] for c in group])
        values, distorted = observe(truth, state.entity, state.beta[rows], theta, rng)
        if model.changing[1]:
            paths = walk(theta[1], state.change[:, 1], rng)
            time = model.time[file_of_record]
            for r in np.flatnonzero(~distorted[:, 1]):
                values[r, 1] = paths[state.entity[r], time[r]]
        if model.near[1]:
            psi = channel(model.coded[1], theta[1], state.closeness[1])
            for r in np.flatnonzero(distorted[:, 1]):
                values[r, 1] = rng.choice(LEVELS, p=psi[truth[state.entity[r], 1]])
        layout.values[:] = np.where(lost, -1, values + np.array([0, LEVELS]))
        # y and z of the new data, drawn by the kernel with numbers that the sweep did not use
        tables = tabulate_state(state, model)
        statistics = execute.count(state, tables, 0, OTHER_CHAIN)
        keep_counts(state, statistics, tables, model, 0, OTHER_CHAIN)


def walk(theta, change, rng):
    """True values of five entities at every time."""
    steps = [rng.choice(LEVELS, 5, p=theta)]
    for rate in change:
        fresh = rng.choice(LEVELS, 5, p=theta)
        steps.append(np.where(rng.random(5) < rate, fresh, steps[-1]))
    return np.stack(steps, axis=1)


SMOKE = ("text", "changing", "patterns-by-block")


@pytest.mark.parametrize(
    "case", [pytest.param(name, marks=[pytest.mark.smoke] * (name in SMOKE)) for name in CASES]
)
def test_parameters_keep_their_prior(case):
    settings = dict(CASES[case])
    missing = settings.pop("missing", ())
    model = make_model(**settings)
    draws = list(successive_conditional(model, missing))[::THIN]
    legal = [labels for labels in partitions(5) if is_legal(labels, model)]
    weights = np.mean([
        np.exp([log_prior(labels, model.prior, values, model) for labels in legal])
        for values in prior_values(model)
    ], axis=0)  # fmt: skip
    weights /= weights.sum()

    linkages = np.array([state.entity for state in draws])
    checks = {"N": (linkages == np.arange(5)).sum(axis=1)}
    expected = {"N": weights @ [len(set(labels)) for labels in legal]}
    for one in range(5):
        for two in range(one + 1, 5):
            checks[one, two] = linkages[:, one] == linkages[:, two]
            expected[one, two] = weights @ [labels[one] == labels[two] for labels in legal]
    for name, values in checks.items():
        assert abs(z_score(values, expected[name])) < 4.5, name
    betas = np.array([state.beta.ravel() for state in draws])
    for column in betas.T:
        assert stats.kstest(column[::4], stats.beta(A, B).cdf).pvalue > 1e-4
    thetas = np.array([state.theta[model.learned] for state in draws])
    marginal = stats.beta(MU, MU * (LEVELS - 1))
    for column in thetas.T:
        assert stats.kstest(column[::4], marginal.cdf).pvalue > 1e-4
    if model.near.any():
        close = np.array([state.closeness[1] for state in draws])
        assert stats.kstest(close[::4], stats.uniform.cdf).pvalue > 1e-4
    if model.changing.any():
        for step in range(2):
            rates = np.array([state.change[step, 1] for state in draws])
            assert stats.kstest(rates[::4], stats.beta(CHANGE_A, CHANGE_B).cdf).pvalue > 1e-4
    if model.classes > 1:
        weight = np.array([state.class_weight[0] for state in draws])
        assert stats.kstest(weight[::16], stats.beta(0.5, 0.5).cdf).pvalue > 1e-4
        for level, share in enumerate(draws[0].theta):
            values = np.array([state.class_theta[level, 1] for state in draws])
            mass = MU * LEVELS
            expected = stats.beta(mass * share, mass * (1 - share))
            assert stats.kstest(values[::16], expected.cdf).pvalue > 1e-4, level


def prior_values(model):
    """Hyperparameters of the prior on the linkage, drawn before the data."""
    if not isinstance(model.prior, ClusterSizes):
        return [None]
    rng = np.random.default_rng(7)
    shares = rng.dirichlet(model.partition_prior.kinds.mass, 4000)
    return np.hstack((shares, rng.gamma(POOLING_SHAPE, 1 / POOLING_RATE, (4000, 1))))


def z_score(values, expected):
    """Deviation of the mean in standard errors, by batch means."""
    values = np.asarray(values, float)
    if np.ptp(values) == 0:
        return 0.0 if values[0] == pytest.approx(expected) else np.inf
    batches = np.array_split(values, 40)
    means = np.array([batch.mean() for batch in batches])
    return (means.mean() - expected) / (means.std(ddof=1) / np.sqrt(len(means)))
