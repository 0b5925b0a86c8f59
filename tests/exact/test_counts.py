"""Rung 1 for true values, distortions and their counts: against sums over all y and z."""

import itertools
import math
from collections import Counter

import numpy as np
import pytest

from smered.execute import make_executor
from smered.sampler import keep_counts
from smered.state import start_state, tabulate
from tests.exact.cases import CLOSENESS, fixed_classes, fixed_parameters, tiny_model
from tests.exact.reference import channel, log_likelihood, partitions
from tests.exact.test_reference import bench, kernel_order

pytestmark = pytest.mark.plain


def explicit(codes, theta, rate, psi=None):
    """All (y, z) of a cluster in a field with their probability, given what its records show."""
    psi = np.tile(theta, (len(theta), 1)) if psi is None else psi
    shown = [x for x in codes if x >= 0]
    weights = {}
    for y, p_y in enumerate(theta):
        for z in itertools.product((0, 1), repeat=len(shown)):
            weight = p_y
            for x, flag in zip(shown, z, strict=True):
                weight *= rate * psi[y, x] if flag else (1 - rate) * (x == y)
            if weight:
                weights[y, z] = weight
    total = sum(weights.values())
    return {outcome: weight / total for outcome, weight in weights.items()}


def distance(seen, probability, draws):
    """Total variation between counts and probabilities."""
    keys = set(seen) | set(probability)
    return 0.5 * sum(abs(probability.get(k, 0) - seen.get(k, 0) / draws) for k in keys)


@pytest.mark.parametrize("near", [None, "text", "text-that-may-equal", "number"])
def test_latent_values_have_their_exact_conditional_distribution(near):
    """P(y, z | linkage) by brute force against the frequency over many sweeps' numbers."""
    model = tiny_model(near=near)
    layout, tables, _, theta, beta = bench(model)
    execute = make_executor(model, layout, 1)
    state = start_state(model, layout, 0, 0)
    state.entity = np.zeros(5, np.int32)
    column, draws = 1 if near else 0, 1000 if not_compiled() else 20_000
    seen = Counter()
    for sweep in range(draws):
        state.sweep = sweep
        true, distorted = execute.latent(state, tables, 7, 0)
        assert (true == true[0]).all()
        z = distorted[:, column]
        assert ((z == -1) == (layout.values[:, column] < 0)).all()
        level = int(true[0, column] - model.field_start[column])
        seen[level, tuple(z[z >= 0].tolist())] += 1
    codes = model.coded[column].codes[model.order]
    psi = channel(model.coded[column], theta[column], CLOSENESS)
    probability = explicit(codes, theta[column], beta[0, column], psi)
    assert distance(seen, probability, draws) < (0.15 if not_compiled() else 0.02)


def test_classes_and_true_values_have_their_exact_distribution():
    """P(class, y | linkage) as counted for the next draw of the latent classes."""
    model = tiny_model(classes=3, exact=True)
    layout, tables, _, theta, beta = bench(model)
    classes = fixed_classes(model)
    execute = make_executor(model, layout, 1)
    state = start_state(model, layout, 0, 0)
    state.entity = kernel_order((0, 0, 0, 3, 3), model)
    draws = 600 if not_compiled() else 20_000
    seen = Counter()
    for sweep in range(draws):
        state.sweep = sweep
        found = execute.count(state, tables, 7, 0)
        assert found.class_counts.sum() == 2
        assert (found.telling[0, :2] == model.observed[0, :2]).all()  # lone values tell, too
        seen[tuple(found.class_counts.tolist()), int(found.distorted[0, 1])] += 1
    expected = {((0, 0, 0), 0): 1.0}
    for members in ([0, 1, 2], [3, 4]):
        outcomes = Counter()
        for c in range(3):
            weight, second = classes.weight[c], {}
            for column, part in enumerate(model.coded):
                own = classes.theta[slice(*model.field_start[column : column + 2]), c]
                codes = part.codes[model.order][members]
                joint = {}
                for y, p_y in enumerate(own):
                    for z in itertools.product((0, 1), repeat=len(codes)):
                        p = p_y
                        for x, flag in zip(codes, z, strict=True):
                            if x < 0:
                                p *= 0.5  # no z: both count the same
                            elif flag:
                                p *= beta[0, column] * theta[column][x]
                            else:
                                p *= (1 - beta[0, column]) * (x == y)
                        times = sum(flag for x, flag in zip(codes, z, strict=True) if x >= 0)
                        joint[times] = joint.get(times, 0.0) + p
                if column == 1:
                    second = joint
                else:
                    weight *= sum(joint.values())
            for times, p in second.items():
                outcomes[c, times] += weight * p
        total, further = sum(outcomes.values()), Counter()
        for (counts, distorted), p in expected.items():
            for (c, times), q in outcomes.items():
                more = tuple(n + (i == c) for i, n in enumerate(counts))
                further[more, distorted + times] += p * q / total
        expected = further
    assert distance(seen, expected, draws) < (0.2 if not_compiled() else 0.02)


@pytest.mark.parametrize("kind", ["text", "text-that-may-equal"])
def test_slips_are_counted_as_often_as_they_happen(kind):
    """The expected share of slips among distorted values, by brute force."""
    model = tiny_model(near=kind)
    layout, tables, _, theta, beta = bench(model)
    execute = make_executor(model, layout, 1)
    state = start_state(model, layout, 0, 0)
    state.entity = np.zeros(5, np.int32)
    draws = 1000 if not_compiled() else 20_000
    found = np.zeros(2)
    for sweep in range(draws):
        state.sweep = sweep
        statistics = execute.count(state, tables, 7, 0)
        found += [statistics.slips[0, 1] / draws, statistics.distorted[0, 1] / draws]
    part, codes = model.coded[1], model.coded[1].codes[model.order]
    psi = channel(part, theta[1], CLOSENESS)
    any_value = (1 - CLOSENESS) * theta[1]
    slips = distorted = 0.0
    for (y, z), p in explicit(codes, theta[1], beta[0, 1], psi).items():
        distorted += p * sum(z)
        slips += p * sum(
            1 - any_value[x] / psi[y, x] for x, flag in zip(codes, z, strict=True) if flag
        )
    assert found == pytest.approx([slips, distorted], rel=0.1 if not_compiled() else 0.02)


@pytest.mark.parametrize("labels", [(0, 0, 0, 0, 0), (0, 0, 0, 3, 3), (0, 1, 2, 3, 4)])
def test_true_values_that_rotate_have_their_exact_distribution(labels):
    """P(y | linkage) of the chosen fields, also where no record of an entity shows a value."""
    model = tiny_model(exact=True)
    layout, tables, _, theta, beta = bench(model)
    execute = make_executor(model, layout, 1)
    state = start_state(model, layout, 0, 0)
    state.entity = kernel_order(labels, model)
    draws = 400 if not_compiled() else 10_000
    seen = [Counter() for _ in range(5)]
    for sweep in range(draws):
        state.sweep = sweep
        true = execute.true_values(state, tables, np.array([1, 2]), 7, 0)
        assert (true == true[state.entity]).all()
        sure = layout.values[:, 2]  # never distorted
        assert (true[:, 1] == sure)[sure >= 0].all()
        for record in range(5):
            seen[record][int(true[record, 0])] += 1
    codes = model.coded[1].codes[model.order]
    for record in range(5):
        expected = Counter()
        together = codes[state.entity == state.entity[record]]
        for (y, _), p in explicit(together, theta[1], beta[0, 1]).items():
            expected[int(model.field_start[1]) + y] += p
        assert distance(seen[record], expected, draws) < (0.15 if not_compiled() else 0.02)


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


@pytest.mark.parametrize(
    ("settings", "rate"), [({}, None), ({}, 0.7), ({"distortion": "file"}, 0.2)]
)
@pytest.mark.parametrize(
    "labels", [(0, 0, 0, 0, 0), (0, 0, 0, 3, 3), (0, 1, 0, 1, 4), (0, 1, 2, 3, 4), (0, 0, 2, 2, 2)]
)
def test_counts_have_their_exact_distribution(labels, settings, rate):
    """Counts of a sweep, most of them drawn by level rather than by cluster."""
    model = tiny_model(**settings)
    layout, tables, _, theta, beta = bench(model)
    if rate:
        beta = np.full_like(beta, rate)
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
