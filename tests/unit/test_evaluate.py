"""Metrics against enumeration of pairs, records and draws."""

from collections import Counter
from itertools import combinations
from math import comb, log

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import smered
from smered.errors import DataError
from smered.evaluate import (
    Links,
    adjusted_rand,
    b_cubed,
    clusters,
    evaluate,
    links,
    overlap_confusion,
    pairs_within,
    posterior_links,
    reliability,
    variation_of_information,
)
from tests.unit.test_posterior import posteriors

labels = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=25)


def count_links(estimate, truth):
    counts = {"true": 0, "false": 0, "missing": 0}
    for i, j in combinations(range(len(truth)), 2):
        found, right = estimate[i] == estimate[j], truth[i] == truth[j]
        counts["true"] += int(found and right)
        counts["false"] += int(found and not right)
        counts["missing"] += int(right and not found)
    return Links(**counts)


def groups(label):
    return {frozenset(i for i, each in enumerate(label) if each == name) for name in set(label)}


@given(labels)
def test_metrics_equal_enumeration(rows):
    estimate, truth = zip(*rows, strict=True)
    n = len(rows)
    assert links(estimate, truth) == count_links(estimate, truth)
    one = {i: group for group in groups(estimate) for i in group}
    two = {i: group for group in groups(truth) for i in group}
    precision = np.mean([len(one[i] & two[i]) / len(one[i]) for i in range(n)])
    recall = np.mean([len(one[i] & two[i]) / len(two[i]) for i in range(n)])
    assert b_cubed(estimate, truth) == pytest.approx((precision, recall))
    same = len(groups(estimate) & groups(truth))
    expected = (same / len(groups(estimate)), same / len(groups(truth)))
    assert clusters(estimate, truth) == pytest.approx(expected)
    information = 0.0
    for a in groups(estimate):
        for b in groups(truth):
            if a & b:
                both = len(a & b) / n
                information -= both * (log(both * n / len(a)) + log(both * n / len(b)))
    assert variation_of_information(estimate, truth) == pytest.approx(information, abs=1e-12)
    index = sum(comb(len(a & b), 2) for a in groups(estimate) for b in groups(truth))
    by_row, by_column = (sum(comb(len(g), 2) for g in groups(x)) for x in (estimate, truth))
    chance = by_row * by_column / max(comb(n, 2), 1)
    most = (by_row + by_column) / 2
    rand = (index - chance) / (most - chance) if most != chance else 1.0
    assert adjusted_rand(estimate, truth) == pytest.approx(rand)


@given(labels, st.integers(0, 100))
def test_confusion_equals_enumeration(rows, seed):
    estimate, truth = zip(*rows, strict=True)
    files = ("x", "y", "z")
    file = np.random.default_rng(seed).integers(0, 3, len(rows))

    def pattern(label, i):
        held = {file[j] for j in range(len(rows)) if label[j] == label[i]}
        return tuple(name for number, name in enumerate(files) if number in held)

    expected = Counter((pattern(estimate, i), pattern(truth, i)) for i in range(len(rows)))
    found = overlap_confusion(estimate, truth, file, files)
    for a, row in enumerate(found.patterns):
        for b, column in enumerate(found.patterns):
            assert found.records[a, b] == expected[row, column]
    assert found.records.sum() == len(rows)
    assert found.row_sums.tolist() == found.records.sum(axis=1).tolist()


def test_many_files():
    files = [f"f{i}" for i in range(70)]
    found = overlap_confusion([0] * 70, range(70), range(70), files)
    assert found.patterns[-1] == tuple(files)
    assert found.records[-1, :-1].tolist() == [1] * 70


def test_rates():
    found = Links(true=8, false=4, missing=2)
    assert found.fnr == pytest.approx(0.2)
    assert found.fpr == pytest.approx(0.4)
    assert found.precision == pytest.approx(2 / 3)
    assert found.recall == pytest.approx(0.8)
    assert found.f1 == pytest.approx(8 / 11)
    nothing = Links(0, 0, 0)
    assert (nothing.fnr, nothing.fpr, nothing.precision, nothing.f1) == (0.0, 0.0, 1.0, 1.0)


def test_no_rate_where_there_is_nothing_to_compare_with():
    assert np.isnan(Links(0, 3, 0).fpr)


def test_any_labels():
    assert pairs_within([]) == 0
    assert pairs_within(["x", "x", "y"]) == pairs_within(pa.chunked_array([[1, 1], [2]])) == 1
    with pytest.raises(DataError, match="label 2 is missing"):
        pairs_within(pa.array([1, None]))
    with pytest.raises(DataError, match="3 labels against 2"):
        links([1, 2, 3], [1, 2])


def test_reliability():
    probability = np.array([0.05, 0.05, 0.95, 1.0, 0.5])
    matches = np.array([False, True, True, True, False])
    found = reliability(probability, matches)
    assert found.pairs.tolist() == [2, 0, 0, 0, 0, 1, 0, 0, 0, 2]
    assert found.observed[[0, 5, 9]].tolist() == [0.5, 0.0, 1.0]
    assert found.predicted[9] == pytest.approx(0.975)
    assert found.error == pytest.approx((2 * 0.45 + 0.5 + 2 * 0.025) / 5)


@given(posteriors(), st.data())
def test_posterior_links_equal_the_mean_over_draws(case, data):
    posterior, linkages = case
    n = linkages.shape[-1]
    truth = data.draw(st.lists(st.integers(0, 3) | st.none(), min_size=n, max_size=n))
    known = [i for i in range(n) if truth[i] is not None]
    if not known:
        with pytest.raises(DataError, match="unknown for every record"):
            evaluate(posterior, pa.array(truth, pa.int64()))
        return
    right = [truth[i] for i in known]
    each = [count_links(draw[known], right) for draw in linkages.reshape(-1, n)]
    found = posterior_links(posterior, pa.array(truth, pa.int64()))
    for name in ("true", "false", "missing"):
        assert getattr(found, name) == pytest.approx(np.mean([getattr(e, name) for e in each]))
    whole = evaluate(posterior, pa.array(truth, pa.int64()))
    for name, summary in whole.rates.items():
        if name != "recall" or any(e.true + e.missing for e in each):
            expected = [getattr(e, name) for e in each]
            assert summary.draws.ravel() == pytest.approx(expected, nan_ok=True)
    assert whole.never_linked == sum(
        right[a] == right[b] and not (linkages[..., i] == linkages[..., j]).any()
        for (a, i), (b, j) in combinations(enumerate(known), 2)
    )
    assert whole.reliability.pairs.sum() == sum(
        bool((linkages[..., i] == linkages[..., j]).any()) for i, j in combinations(known, 2)
    )
    assert (whole.entities is None) == (len(known) < n)


def test_evaluation_of_a_perfect_run():
    data = smered.simulate.simulate(
        {("a",): 9, ("a", "b"): 9}, [40, 40, 40, 40], seed=1, distortion=0
    )
    settings = {"draws": 50, "chains": 2, "duplicates": False}
    posterior = smered.link(data.tables, data.fields, id="id", **settings)
    found = evaluate(posterior, data.truth)
    assert found.estimate == Links(9, 0, 0)
    assert found.b_cubed == found.clusters == (1.0, 1.0)
    assert found.true_entities == 18
    overlap = {row.files: row for row in found.overlap}
    assert {files: row.truth for files, row in overlap.items() if row.truth} == {
        ("a",): 9,
        ("a", "b"): 9,
    }
    assert overlap["a", "b"].relative_error == pytest.approx(0, abs=0.1)
    with pytest.raises(DataError, match="3 labels for 27 records"):
        evaluate(posterior, [1, 2, 3])
