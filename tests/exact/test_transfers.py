"""Rung 1 for transfers: detailed balance, pair of states by pair of states."""

import math

import numpy as np
import pytest

from smered.execute import make_executor
from smered.kernels import clusters as cluster_kernels
from smered.kernels import moves, transfers
from smered.labels import NO_SHARES
from smered.layout import BlockPrior, Clusters
from smered.priors import Ewens, UniformLabels
from smered.state import tabulate
from tests.exact.cases import HandPicked, fixed_parameters, tiny_model
from tests.exact.reference import is_legal, log_likelihood, log_prior, partitions
from tests.kernels import from_python

pytestmark = pytest.mark.plain

build_rings = from_python(cluster_kernels.build_rings)
same_file_member = from_python(cluster_kernels.same_file_member)
weigh_clusters = from_python(cluster_kernels.weigh_clusters)
log_change, link_pieces = from_python(moves.log_change), from_python(moves.link_pieces)
arrange_transfer = from_python(transfers.arrange_transfer)
log_transfer_chances = from_python(transfers.log_transfer_chances)

LISTS = [[2, 3, 4], [2, 4], [0, 1, 4], [1], [0, 1, 2]]  # records 0, 1: file A; 2, 3: B; 4: C
PAIRS = HandPicked(LISTS)


class Bench:
    """Everything that the kernel needs, and the target by brute force."""

    def __init__(self, **settings):
        self.model = tiny_model(pairs=PAIRS, **settings)
        self.layout = self.model.layout()
        self.theta, self.beta = fixed_parameters(self.model)
        self.tables = tabulate(np.concatenate(self.theta), self.beta, self.model)
        self.scratch = make_executor(self.model, self.layout, 1)._desks[0].scratch
        log_kind = self.model.log_kind(np.empty(0))
        self.prior = BlockPrior(
            np.zeros(1), np.zeros(1, np.int64), log_kind, NO_SHARES, np.empty(0)
        )

    def log_target(self, labels):
        prior = log_prior(labels, self.model.prior)
        return log_likelihood(labels, self.model, self.theta, self.beta) + prior

    def log_ratio(self, labels, record, target):
        """Log acceptance ratio of a transfer and where it leads; None if it is not proposed."""
        clusters = Clusters(
            np.array(labels, np.int32),
            *np.zeros((2, 5), np.int32),
            np.zeros(5, np.int64),
            np.zeros(5),
        )
        build_rings(0, 5, self.layout, clusters)
        weigh_clusters(0, 5, self.layout, self.tables, clusters, self.scratch)
        one = labels[record]
        rival = same_file_member(record, target, self.layout, clusters)
        if labels.count(one) == 1 and rival < 0:
            return None
        middle, size = arrange_transfer(record, rival, target, clusters, self.scratch)
        log_ratio, left, right = log_change(
            one,
            target,
            middle,
            size,
            0,
            self.layout,
            self.tables,
            self.prior,
            clusters,
            self.scratch,
        )
        log_ratio += log_transfer_chances(record, rival, one, target, self.layout, clusters)
        link_pieces(middle, size, left, right, self.layout, clusters, self.scratch)
        return log_ratio, tuple(clusters.entity.tolist())


def weight(labels, record, name):
    """Weight of a record's candidates in a cluster: how often such a transfer is proposed."""
    return PAIRS.weight(record, [partner for partner in range(5) if labels[partner] == name])


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"duplicates": False},
        {"duplicates": {"A": False}},
        {"prior": Ewens(2.0)},
        {"exact": True, "prior": UniformLabels()},
    ],
    ids=["duplicates", "no-duplicates", "one-file-without", "ewens", "exact-field"],
)
def test_detailed_balance(settings):
    bench = Bench(**settings)
    checked = 0
    states = [labels for labels in partitions(5) if is_legal(labels, bench.model)]
    states = [labels for labels in states if bench.log_target(labels) > -math.inf]
    for labels in states:
        for record in range(5):
            for target in {labels[partner] for partner in LISTS[record]} - {labels[record]}:
                found = bench.log_ratio(labels, record, target)
                if found is None or found[0] == -math.inf:
                    continue
                log_ratio, reached = found
                assert is_legal(reached, bench.model)
                companions = [r for r in range(5) if r != record and labels[r] == labels[record]]
                if companions:
                    mover, back = record, reached[companions[0]]
                else:  # the record that took its place goes back to where it was
                    file = bench.model.records.file
                    (mover,) = (
                        r for r in range(5) if labels[r] == target and file[r] == file[record]
                    )
                    back = reached[record]
                returned = bench.log_ratio(reached, mover, back)
                assert returned is not None
                assert returned[1] == labels
                # the two ratios are each other's inverse, and right: detailed balance
                assert returned[0] == pytest.approx(-log_ratio, abs=1e-9)
                there = bench.log_target(labels) + math.log(weight(labels, record, target))
                again = bench.log_target(reached) + math.log(weight(reached, mover, back))
                assert log_ratio == pytest.approx(again - there, abs=1e-9)
                checked += 1
    assert checked > 20
