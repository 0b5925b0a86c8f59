"""Link counts against enumeration of all pairs."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from smered.evaluate import Links, links, pairs_within

labels = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=25)


@given(labels)
def test_links_equal_enumeration(rows):
    estimate, truth = map(np.array, zip(*rows, strict=True))
    counts = {"true": 0, "false": 0, "missing": 0}
    for i, j in combinations(range(len(rows)), 2):
        found, right = estimate[i] == estimate[j], truth[i] == truth[j]
        counts["true"] += int(found and right)
        counts["false"] += int(found and not right)
        counts["missing"] += int(right and not found)
    assert links(estimate, truth) == Links(**counts)


def test_rates():
    found = Links(true=8, false=4, missing=2)
    assert found.fnr == pytest.approx(0.2)
    assert found.fpr == pytest.approx(0.4)
    assert found.precision == pytest.approx(2 / 3)
    assert found.recall == pytest.approx(0.8)
    assert found.f1 == pytest.approx(8 / 11)
    nothing = Links(0, 0, 0)
    assert (nothing.fnr, nothing.fpr, nothing.precision, nothing.f1) == (0.0, 0.0, 1.0, 0.0)


def test_no_records():
    assert pairs_within([]) == 0
