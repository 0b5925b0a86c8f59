"""Rung 1: kernels against the model written with true values and distortions explicit."""

import itertools
import math
from collections import Counter

import numpy as np
import pytest

from smered.execute import make_executor
from smered.layout import BlockPrior, Clusters
from smered.pairs import UniformPairs
from smered.priors import Ewens, PitmanYor, UniformLabels, UniformPartitions
from smered.sampler import condition_prior, keep_counts, log_posterior
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
def test_log_ratios_are_the_differences_of_targets(prior):
    """Of merging two clusters, and of parting them again."""
    from smered.kernels.clusters import build_rings, gather, weigh_clusters
    from smered.kernels.moves import log_change, log_number

    model = tiny_model(prior=prior)
    layout, tables, scratch, theta, beta = bench(model)
    n = len(model.records)
    log_size = prior.log_size(n, np.empty(0))
    sizes = BlockPrior(np.empty(0), np.empty(0, np.int64), log_size)

    def target(labels):
        return log_likelihood(labels, model, theta, beta) + log_prior(labels, prior)

    def clusters_of(labels):
        room = np.zeros(n, np.int32), np.zeros(n, np.int32), np.zeros(n)
        clusters = Clusters(kernel_order(labels, model), *room)
        build_rings(0, n, clusters)
        weigh_clusters(0, n, layout, tables, clusters, scratch)
        return clusters

    merges = 0
    for apart in partitions(n):
        names = sorted(set(apart))
        for one, two in itertools.combinations(names, 2):
            merged = tuple(one if label == two else label for label in apart)
            log_unit, free = unconditional(prior, len(names), n)
            clusters = clusters_of(apart)
            first, second = (
                clusters.entity[np.flatnonzero(np.array(apart)[model.order] == name)[0]]
                for name in (one, two)
            )
            middle = gather(first, 0, clusters, scratch)
            size = gather(second, middle, clusters, scratch)
            log_ratio, _, _ = log_change(
                first, second, size, size, layout, tables, sizes, clusters, scratch
            )
            log_ratio += log_number(-1, log_unit, free)
            assert log_ratio == pytest.approx(target(merged) - target(apart), abs=1e-9)
            sides = scratch.members[:size].copy()
            clusters = clusters_of(merged)
            scratch.members[:size] = sides
            name = min(first, second)
            back, left, right = log_change(
                name, name, middle, size, layout, tables, sizes, clusters, scratch
            )
            back += log_number(1, log_unit, free + 1 if free >= 0 else free)
            assert back == pytest.approx(-log_ratio, abs=1e-9)
            assert left + right == pytest.approx(
                sum(clusters_of(apart).log_weight[[first, second]]), abs=1e-9
            )
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


def explicit(codes, theta, rate):
    """All (y, z) of a cluster in a field with their probability, given what its records show."""
    shown = [x for x in codes if x >= 0]
    weights = {}
    for y, p_y in enumerate(theta):
        for z in itertools.product((0, 1), repeat=len(shown)):
            weight = p_y
            for x, flag in zip(shown, z, strict=True):
                weight *= rate * theta[x] if flag else (1 - rate) * (x == y)
            if weight:
                weights[y, z] = weight
    total = sum(weights.values())
    return {outcome: weight / total for outcome, weight in weights.items()}


def distance(seen, probability, draws):
    """Total variation between counts and probabilities."""
    keys = set(seen) | set(probability)
    return 0.5 * sum(abs(probability.get(k, 0) - seen.get(k, 0) / draws) for k in keys)


def test_latent_values_have_their_exact_conditional_distribution():
    """P(y, z | linkage) by brute force against the frequency over many sweeps' numbers."""
    model = tiny_model()
    layout, tables, _, theta, beta = bench(model)
    execute = make_executor(model, layout, 1)
    state = start_state(model, layout, 0, 0)
    state.entity = np.zeros(5, np.int32)
    column, draws = 0, 400 if not_compiled() else 20_000
    seen = Counter()
    for sweep in range(draws):
        state.sweep = sweep
        true, distorted = execute.latent(state, tables, 7, 0)
        assert (true == true[0]).all()
        z = distorted[:, column]
        assert ((z == -1) == (layout.values[:, column] < 0)).all()
        seen[int(true[0, column]), tuple(z[z >= 0].tolist())] += 1
    codes = model.coded[column].codes[model.order]
    probability = explicit(codes, theta[column], beta[0, column])
    assert distance(seen, probability, draws) < (0.15 if not_compiled() else 0.02)


def count_probabilities(entity, model, column, theta, rate):
    """The distribution of a field's counts: of levels, and of distorted values."""
    codes = model.coded[column].codes[model.order]
    total = {((0,) * len(theta), 0): 1.0}
    for name in np.unique(entity):
        shown = [int(x) for x in codes[entity == name] if x >= 0]
        if len(shown) == 1:
            outcomes = {(np.bincount(shown, minlength=len(theta)).tobytes(), 0): 1.0}
        else:
            outcomes = Counter()
            for (y, z), p in explicit(shown, theta, rate).items() if shown else ():
                values = [y] + [x for x, flag in zip(shown, z, strict=True) if flag]
                outcomes[np.bincount(values, minlength=len(theta)).tobytes(), sum(z)] += p
        if shown:
            further = Counter()
            for (levels, distorted), p in total.items():
                for (more, times), q in outcomes.items():
                    sums = tuple(np.add(levels, np.frombuffer(more, np.int64)).tolist())
                    further[sums, distorted + times] += p * q
            total = further
    return total


@pytest.mark.parametrize("settings", [{}, {"distortion": "file"}])
@pytest.mark.parametrize(
    "labels", [(0, 0, 0, 0, 0), (0, 0, 0, 3, 3), (0, 1, 0, 1, 4), (0, 1, 2, 3, 4), (0, 0, 2, 2, 2)]
)
def test_counts_have_their_exact_distribution(labels, settings):
    """Counts of a sweep, most of them drawn by level rather than by cluster."""
    model = tiny_model(**settings)
    layout, tables, _, theta, beta = bench(model)
    if settings:
        beta = np.full_like(beta, 0.2)
        tables = tabulate(np.concatenate(theta), beta, model)
    execute = make_executor(model, layout, 1)
    state = start_state(model, layout, 0, 0)
    state.entity = kernel_order(labels, model)
    draws = 400 if not_compiled() else 10_000
    seen = Counter(), Counter()
    for sweep in range(draws):
        state.sweep = sweep
        keep_counts(state, execute.count(state, tables, 7, 0), tables, model, 7, 0)
        for column in range(2):
            levels = state.level_counts[slice(*model.field_start[column : column + 2])]
            key = tuple(levels.tolist()), int(state.distorted[:, column].sum())
            seen[column][key] += 1
    for column in range(2):
        expected = count_probabilities(state.entity, model, column, theta[column], beta[0, column])
        found = distance(seen[column], expected, draws)
        assert found < (0.2 if not_compiled() else 0.03)


def test_a_value_alone_in_its_cluster_tells_nothing_of_distortion():
    model = tiny_model(exact=True)
    layout, tables, *_ = bench(model)
    execute = make_executor(model, layout, 1)
    state = start_state(model, layout, 0, 0)
    alone = 0
    for labels in partitions(5):
        state.entity = kernel_order(labels, model)
        if log_likelihood(labels, model, *fixed_parameters(model)) == -math.inf:
            continue
        keep_counts(state, execute.count(state, tables, 7, 0), tables, model, 7, 0)
        telling = np.zeros(3, int)
        for name in np.unique(state.entity):
            for column in range(2):
                shown = (layout.values[state.entity == name, column] >= 0).sum()
                alone += shown == 1
                telling[column] += shown if shown > 1 else 0
        assert state.telling[0].tolist() == telling.tolist()
        assert (state.distorted[0] <= telling).all()
    assert alone > 50


def test_unseen_levels_can_be_true():
    """With heavy distortion the true value is often one that no record shows."""
    model = tiny_model()
    layout, *_ = bench(model)
    execute = make_executor(model, layout, 1)
    theta = [np.array([0.1, 0.9]), np.array([0.5, 0.5])]
    tables = tabulate(np.concatenate(theta), np.full((1, 2), 0.999), model)
    state = start_state(model, layout, 1, 0)
    hits = []
    for sweep in range(200):
        state.sweep = sweep
        true, _ = execute.latent(state, tables, 3, 0)
        hits.append((true[:3, 0] == 1).mean())  # records that show level 0
    assert np.mean(hits) == pytest.approx(0.9, abs=0.05)


def not_compiled():
    from numba import config

    return bool(config.DISABLE_JIT)
