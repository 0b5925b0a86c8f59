"""Rung 1: kernels against the model written with true values and distortions explicit."""

import itertools
import math

import numpy as np
import pyarrow as pa
import pytest

from smered.execute import make_executor
from smered.fields import Categorical, Text
from smered.kernels import clusters as cluster_kernels
from smered.kernels import likelihood, moves
from smered.kernels import shares as share_kernels
from smered.labels import NO_SHARES
from smered.layout import BlockPrior, Clusters
from smered.model import Model
from smered.pairs import UniformPairs
from smered.priors import ClusterSizes, Ewens, PitmanYor, UniformLabels, UniformPartitions
from smered.records import Records
from smered.sampler import condition_prior, log_posterior
from smered.state import generator, start_state
from tests.exact.cases import (
    NEAR,
    fixed_change,
    fixed_classes,
    fixed_hyperparameters,
    fixed_parameters,
    fixed_tables,
    tiny_model,
)
from tests.exact.reference import is_legal, log_likelihood, log_prior, partitions
from tests.kernels import from_python

pytestmark = pytest.mark.plain

log_weight = from_python(likelihood.log_weight)
build_rings = from_python(cluster_kernels.build_rings)
gather = from_python(cluster_kernels.gather)
weigh_clusters = from_python(cluster_kernels.weigh_clusters)
log_change, log_number = from_python(moves.log_change), from_python(moves.log_number)
count_kinds = from_python(share_kernels.count_kinds)
log_change_of_counts = from_python(moves.log_change_of_counts)

VARIANTS = [{"changing": True}, {"changing": True, "near": "text", "distortion": "file"}]
VARIANTS += [{"changing": True, "near": "number"}, {"changing": True, "duplicates": False}]
VARIANTS += [{"joint": "near"}, {"joint": "alike"}, {"joint": "near", "distortion": "file"}]
VARIANTS += [
    {"joint": "near", "changing": True},
    {"joint": "alike", "blocks": 2},
    {"joint": "slips"},
]
VARIANTS += [{}, {"exact": True}, {"distortion": "file"}, {"blocks": 2, "duplicates": False}]
VARIANTS += [{"near": kind} for kind in NEAR] + [{"near": "text", "distortion": "file"}]
VARIANTS += [{"near": "text", "alike": True}, {"near": "text-that-may-equal", "alike": True}]
VARIANTS += [{"classes": 3}, {"classes": 2, "exact": True, "near": "text"}]
VARIANTS += [{"classes": 3, "distortion": "file"}]
PRIORS = [UniformLabels(), UniformPartitions(), Ewens(2.0), PitmanYor(1.5, 0.3), ClusterSizes()]


def bench(model, in_logs=False):
    """A layout, tables and scratch room for calling kernels by hand."""
    layout = model.layout()
    execute = make_executor(model, layout, 1)
    theta, beta = fixed_parameters(model)
    tables = fixed_tables(model, theta, beta)
    if in_logs:
        tables = tables._replace(small=0)
    return layout, tables, execute._desks[0].scratch, theta, beta


def kernel_order(labels, model):
    """Labels in kernel order, named by the first record there."""
    moved, first = np.array(labels)[model.order], {}
    return np.array([first.setdefault(label, i) for i, label in enumerate(moved)], np.int32)


def log_weights(labels, model, layout, tables, scratch):
    """Sum of the kernel's log weights over the clusters of a partition."""
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
        shares = theta[column] if part.similar is None else part.near.marginal
        alone += np.log(shares[part.codes[part.codes >= 0]]).sum()
    for labels in partitions(len(model.records)):
        if is_legal(labels, model):
            expected = log_likelihood(labels, model, theta, beta)
            found = alone + log_weights(labels, model, layout, tables, scratch)
            assert found == pytest.approx(expected, rel=1e-12)
    assert not scratch.tally.any()  # left clean


@pytest.mark.parametrize("prior", PRIORS, ids=lambda prior: type(prior).__name__)
def test_log_ratios_are_the_differences_of_targets(prior):
    """Of merging two clusters, and of parting them again."""
    model = tiny_model(prior=prior)
    layout, tables, scratch, theta, beta = bench(model)
    n = len(model.records)
    values = fixed_hyperparameters(model)
    log_kind, base = model.log_kind(values), model.partition_prior.base(values)
    kinds = BlockPrior(np.empty(0), np.empty(0, np.int64), log_kind, NO_SHARES, base)

    def target(labels):
        return log_likelihood(labels, model, theta, beta) + log_prior(labels, prior, model=model)

    def clusters_of(labels):
        room = np.zeros((2, n), np.int32)
        clusters = Clusters(kernel_order(labels, model), *room, np.zeros(n, np.int64), np.zeros(n))
        build_rings(0, n, layout, clusters)
        if len(base):
            count_kinds(0, n, layout, clusters, scratch.kinds)
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
                first, second, size, size, 0, layout, tables, kinds, clusters, scratch
            )
            log_ratio += log_number(-1, log_unit, free)
            if len(base):
                log_ratio += log_change_of_counts(
                    first, second, size, size, base.sum(), layout, kinds, clusters, scratch
                )
            assert log_ratio == pytest.approx(target(merged) - target(apart), abs=1e-9)
            sides = scratch.members[:size].copy()
            clusters = clusters_of(merged)
            scratch.members[:size] = sides
            name = min(first, second)
            back, left, right = log_change(
                name, name, middle, size, 0, layout, tables, kinds, clusters, scratch
            )
            back += log_number(1, log_unit, free + 1 if free >= 0 else free)
            if len(base):
                back += log_change_of_counts(
                    name, name, middle, size, base.sum(), layout, kinds, clusters, scratch
                )
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
    if isinstance(prior, ClusterSizes):
        return 0.0, -1
    # V[N] / V[N - 1] of the Chinese restaurant
    return math.log(prior.concentration + prior.discount * (entities - 1)), -1


@pytest.mark.parametrize(
    "prior", [*PRIORS, ClusterSizes(files=False), ClusterSizes(blocks=False)], ids=repr
)
@pytest.mark.parametrize("settings", VARIANTS)
def test_log_posterior_differences_are_those_of_the_reference(settings, prior):
    model = tiny_model(prior=prior, pairs=UniformPairs(), **settings)
    layout = model.layout(proposals=1)
    layout.proposals[:] = 0  # no moves: only weigh what is there
    execute = make_executor(model, layout, 1)
    theta, beta = fixed_parameters(model)
    tables = fixed_tables(model, theta, beta)
    differences = []
    for labels in partitions(len(model.records)):
        if is_legal(labels, model) and log_likelihood(labels, model, theta, beta) > -math.inf:
            state = start_state(model, layout, 0, 0)
            state.theta, state.beta = np.concatenate(theta), beta
            state.entity = kernel_order(labels, model)
            state.entities = len(set(labels))
            state.hyperparameters = fixed_hyperparameters(model)
            state.change = fixed_change(model)
            conditioned = condition_prior(state, model, generator(0, 0, 0))
            statistics = execute.sweep(state, tables, conditioned, 0, 0)
            expected = log_likelihood(labels, model, theta, beta)
            expected += log_prior(labels, prior, model=model)
            differences.append(log_posterior(state, model, execute, statistics) - expected)
    assert len(differences) > 5
    assert np.ptp(differences) < 1e-9


@pytest.mark.parametrize("size", [3, 40, 300])
@pytest.mark.parametrize("classes", [1, 3])
def test_weights_of_many_equal_records(size, classes):
    """Some hundred records agree everywhere: sums over true values and distortions have two terms.

    Sums of products of the model's own probabilities leave the range of numbers long before.
    """
    rest = [f"other {i}" for i in range(30)]
    names = ["plain", "sure", "certain", "text"]
    records = Records.from_frames(
        pa.table({name: ["same"] * size + rest for name in names}), columns=names
    )
    exact = [Categorical(name, b=np.inf) for name in ("sure", "certain")]
    fields = [Categorical("plain", a=1, b=4), *exact, Text("text", threshold=0.9, a=1, b=4)]
    model = Model(records, fields, classes=classes)
    layout, tables, scratch, theta, beta = bench(model)
    shown = [int(part.codes[0]) for part in model.coded]
    own = [theta[column][level] for column, level in enumerate(shown)]
    groups = fixed_classes(model)

    def log_share(column, true):
        """Log weight of a field whose true value is the one shown with this probability."""
        b = beta[0, column]
        log_as_it_is = size * (np.log1p(-b + b * own[column]) - np.log(own[column]))
        if model.exact[column]:
            return np.log(true) + log_as_it_is
        return np.logaddexp(np.log(true) + log_as_it_is, np.log1p(-true) + size * np.log(b))

    expected = log_share(3, own[3])
    if classes == 1:
        expected += sum(log_share(column, own[column]) for column in range(3))
    else:
        expected += np.logaddexp.reduce([
            np.log(groups.weight[c]) + sum(
                log_share(column, groups.theta[model.field_start[column] + shown[column], c])
                for column in range(3)
            )
            for c in range(classes)
        ])  # fmt: skip
    members = np.flatnonzero(layout.values[:, 0] == shown[0])
    scratch.members[:size] = members
    found = log_weight(0, size, layout, tables, scratch)
    assert found == pytest.approx(expected, rel=1e-12)
    assert not scratch.tally.any()
