"""Rung 1: kernels against the model written with true values and distortions explicit."""

import math

import numpy as np
import pytest

from smered.execute import make_executor
from smered.layout import BlockPrior
from smered.pairs import UniformPairs
from smered.priors import Ewens, PitmanYor, UniformLabels, UniformPartitions
from smered.sampler import condition_prior, log_posterior
from smered.state import generator, start_state, tabulate
from tests.exact.cases import fixed_parameters, tiny_model
from tests.exact.reference import is_legal, log_likelihood, log_prior, partitions

pytestmark = pytest.mark.plain

VARIANTS = [{}, {"exact": True}, {"distortion": "file"}, {"blocks": 2, "duplicates": False}]
PRIORS = [UniformLabels(), UniformPartitions(), Ewens(2.0), PitmanYor(1.5, 0.3)]


def bench(model, in_logs=False):
    """A layout, tables and scratch room for calling kernels by hand."""
    layout = model.layout()
    execute = make_executor(model, layout, 1)
    theta, beta = fixed_parameters(model)
    tables = tabulate(np.concatenate(theta), beta, model)
    if in_logs:
        tables = tables._replace(small=0)
    return layout, tables, execute._desks[0].scratch, theta, beta


def kernel_order(labels, model):
    """Labels in kernel order, named by the first record there."""
    moved, first = np.array(labels)[model.order], {}
    return np.array([first.setdefault(label, i) for i, label in enumerate(moved)], np.int32)


def log_weights(labels, model, layout, tables, scratch):
    """Sum of the kernel's log weights over the clusters of a partition."""
    from smered.kernels.likelihood import log_weight

    entity = kernel_order(labels, model)
    total = 0.0
    for name in np.unique(entity):
        members = np.flatnonzero(entity == name)
        scratch.members[: len(members)] = members
        total += log_weight(0, len(members), layout, tables, scratch)
    return total


@pytest.mark.parametrize("in_logs", [False, True])
@pytest.mark.parametrize("settings", VARIANTS)
def test_collapsed_weights_equal_the_sum_over_true_values_and_distortions(settings, in_logs):
    model = tiny_model(**settings)
    layout, tables, scratch, theta, beta = bench(model, in_logs)
    alone = 0.0  # the log likelihood of every record alone
    for column, part in enumerate(model.coded):
        alone += np.log(theta[column][part.codes[part.codes >= 0]]).sum()
    for labels in partitions(len(model.records)):
        if is_legal(labels, model):
            expected = log_likelihood(labels, model, theta, beta)
            found = alone + log_weights(labels, model, layout, tables, scratch)
            assert found == pytest.approx(expected, rel=1e-12)
    assert not scratch.tally.any()  # left clean


@pytest.mark.parametrize("prior", PRIORS, ids=lambda prior: type(prior).__name__)
def test_log_ratio_is_the_difference_of_targets_plus_the_hastings_factor(prior):
    from smered.kernels.moves import log_merge_ratio

    model = tiny_model(prior=prior)
    layout, tables, scratch, theta, beta = bench(model)
    n = len(model.records)
    log_size = prior.log_size(n, np.empty(0))
    merges = 0
    for apart in partitions(n):
        names = sorted(set(apart))
        for one in names:
            for two in names[names.index(one) + 1 :]:
                merged = tuple(one if label == two else label for label in apart)
                sizes = [apart.count(one), apart.count(two)]
                log_unit, free = unconditional(prior, len(names), n)
                found = log_merge_ratio(
                    log_weights(merged, model, layout, tables, scratch),
                    log_weights(apart, model, layout, tables, scratch),
                    0.0,
                    *sizes,
                    log_unit,
                    free,
                    -(sum(sizes) - 2) * math.log(2),
                    BlockPrior(np.empty(0), np.empty(0, np.int64), log_size),
                )
                target = [
                    log_likelihood(p, model, theta, beta) + log_prior(p, prior)
                    for p in (merged, apart)
                ]
                hastings = -(sum(sizes) - 2) * math.log(2)
                assert found == pytest.approx(target[0] - target[1] + hastings, abs=1e-9)
                merges += 1
    assert merges > 50


def unconditional(prior, entities, n):
    """The log weight of one more cluster and the free labels when there is one block."""
    if isinstance(prior, UniformLabels):
        return 0.0, n - entities
    if isinstance(prior, UniformPartitions):
        return 0.0, -1
    # V[N] / V[N - 1] of the Chinese restaurant
    return math.log(prior.concentration + prior.discount * (entities - 1)), -1


@pytest.mark.parametrize("prior", PRIORS, ids=lambda prior: type(prior).__name__)
@pytest.mark.parametrize("settings", VARIANTS)
def test_log_posterior_differences_are_those_of_the_reference(settings, prior):
    model = tiny_model(prior=prior, pairs=UniformPairs(), **settings)
    layout = model.layout(proposals=1)
    layout.proposals[:] = 0  # no moves: only weigh what is there
    execute = make_executor(model, layout, 1)
    theta, beta = fixed_parameters(model)
    tables = tabulate(np.concatenate(theta), beta, model)
    differences = []
    for labels in partitions(len(model.records)):
        if is_legal(labels, model) and log_likelihood(labels, model, theta, beta) > -math.inf:
            state = start_state(model, layout, 0, 0)
            state.theta, state.beta = np.concatenate(theta), beta
            state.entity = kernel_order(labels, model)
            state.entities = len(set(labels))
            conditioned = condition_prior(state, model, generator(0, 0, 0))
            statistics = execute.sweep(state, tables, conditioned, 0, 0)
            expected = log_likelihood(labels, model, theta, beta) + log_prior(labels, prior)
            differences.append(log_posterior(state, model, statistics) - expected)
    assert len(differences) > 5
    assert np.ptp(differences) < 1e-9


def test_latent_values_have_their_exact_conditional_distribution():
    """P(y, z | linkage) by brute force against the frequency over many sweeps' numbers."""
    model = tiny_model()
    layout, tables, _, theta, beta = bench(model)
    execute = make_executor(model, layout, 1)
    state = start_state(model, layout, 0, 0)
    state.entity = np.zeros(5, np.int32)
    column, draws = 0, 400 if not_compiled() else 20_000
    true, distorted = np.empty((5, 2), np.int32), np.empty((5, 2), np.int32)
    seen = {}
    for sweep in range(draws):
        state.sweep = sweep
        statistics = execute.latent(state, tables, 7, 0, (true, distorted))
        assert statistics.distorted[0, column] == (distorted[:, column] == 1).sum()
        assert statistics.telling.tolist() == [(layout.values >= 0).sum(axis=0).tolist()]
        shown = np.append(true[0], layout.values[distorted == 1])  # y of the one cluster, and x
        assert statistics.level_counts.tolist() == np.bincount(shown, minlength=4).tolist()
        unwritten = execute.latent(state, tables, 7, 0)  # the same counts
        assert all(np.array_equal(unwritten[i], statistics[i]) for i in range(3))
        key = (int(true[0, column]), *distorted[:, column].tolist())
        seen[key] = seen.get(key, 0) + 1
    codes = model.coded[column].codes[model.order]
    probability = {}
    for y, p_y in enumerate(theta[column]):
        for z in np.ndindex(2, 2, 2, 2):
            weight, full, used = p_y, [y], iter(z)
            for x in codes:
                if x < 0:
                    full.append(-1)
                    continue
                flag = next(used)
                rate = beta[0, column]
                weight *= rate * theta[column][x] if flag else (1 - rate) * (x == y)
                full.append(flag)
            if weight:
                probability[tuple(full)] = weight
    total = sum(probability.values())
    keys = set(probability) | {(k[0] - 0, *k[1:]) for k in seen}
    distance = 0.5 * sum(abs(probability.get(k, 0) / total - seen.get(k, 0) / draws) for k in keys)
    assert distance < (0.15 if not_compiled() else 0.02)


def test_a_value_alone_in_its_cluster_counts_once_and_tells_nothing_of_distortion():
    model = tiny_model(exact=True)
    layout, tables, *_ = bench(model)
    execute = make_executor(model, layout, 1)
    state = start_state(model, layout, 0, 0)
    alone = 0
    for labels in partitions(5):
        state.entity = kernel_order(labels, model)
        if log_likelihood(labels, model, *fixed_parameters(model)) == -math.inf:
            continue
        statistics = execute.latent(state, tables, 7, 0)
        telling = np.zeros(3, int)
        lone_levels = np.zeros(len(model.mu), int)
        for name in np.unique(state.entity):
            for column in range(3):
                values = layout.values[state.entity == name, column]
                shown = values[values >= 0]
                if len(shown) == 1:
                    lone_levels[shown[0]] += 1
                    alone += 1
                else:
                    telling[column] += len(shown)
        assert statistics.telling[0, :2].tolist() == telling[:2].tolist()
        assert (statistics.distorted[0] <= telling).all()
        assert (statistics.level_counts >= lone_levels).all()
        if not telling.any():
            assert statistics.level_counts.tolist() == lone_levels.tolist()
    assert alone > 50


def test_unseen_levels_can_be_true():
    """With heavy distortion the true value is often one that no record shows."""
    model = tiny_model()
    layout, *_ = bench(model)
    execute = make_executor(model, layout, 1)
    theta = [np.array([0.1, 0.9]), np.array([0.5, 0.5])]
    tables = tabulate(np.concatenate(theta), np.full((1, 2), 0.999), model)
    state = start_state(model, layout, 1, 0)
    true, distorted = np.empty((5, 2), np.int32), np.empty((5, 2), np.int32)
    hits = []
    for sweep in range(200):
        state.sweep = sweep
        execute.latent(state, tables, 3, 0, (true, distorted))
        hits.append((true[:3, 0] == 1).mean())  # records that show level 0
    assert np.mean(hits) == pytest.approx(0.9, abs=0.05)


def not_compiled():
    from numba import config

    return bool(config.DISABLE_JIT)
