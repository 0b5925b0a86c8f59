"""Simulated data have the shape that was asked for."""

import numpy as np
import pytest

from smered.errors import ConfigError
from smered.evaluate import pairs_within
from smered.simulate import PAPER_OVERLAP, observe, simulate, survey


def columns_of(data):
    return {
        field: np.concatenate([table[field].to_numpy() for table in data.tables.values()])
        for field in data.fields
    }


def test_survey_has_the_papers_overlap_and_calibration():
    data = survey()
    truth, columns = data.truth, columns_of(data)
    assert data.fields == ("sex", "day", "month", "year", "state", "office")
    assert len(truth) == 57_077
    assert len(np.unique(truth)) == 34_945
    seen = {}
    for wave, table in data.tables.items():
        assert len(np.unique(table["entity"])) == len(table)  # no duplicates within a wave
        for person in table["entity"].to_pylist():
            seen[person] = (*seen.get(person, ()), wave)
    patterns = list(seen.values())
    assert {pattern: patterns.count(pattern) for pattern in set(patterns)} == PAPER_OVERLAP

    true_pairs = pairs_within(truth)
    assert true_pairs == 28_246
    agreeing = pairs_within(truth, *columns.values())
    twins = pairs_within(*columns.values()) - agreeing
    near = 0
    for left_out in columns:
        others = [values for field, values in columns.items() if field != left_out]
        near += pairs_within(*others) - pairs_within(truth, *others) - twins
    assert twins == pytest.approx(2_558, rel=0.05)
    assert near == pytest.approx(353_536, rel=0.05)
    assert 1 - agreeing / true_pairs == pytest.approx(0.09, abs=0.01)
    moved = pairs_within(truth) - pairs_within(truth, columns["state"])
    assert moved > 0.5 * (true_pairs - agreeing)  # mostly because people move


def test_survey_is_seeded_and_office_depends_on_state():
    assert survey(3).tables["1982"].equals(survey(3).tables["1982"])
    assert not survey(3).tables["1982"].equals(survey(4).tables["1982"])
    columns = columns_of(survey())
    offices_of_state = [len(np.unique(columns["office"][columns["state"] == s])) for s in range(50)]
    common = np.bincount(columns["office"][columns["state"] == 14]).argsort()[-2:]
    share = np.isin(columns["office"][columns["state"] == 14], common).mean()
    assert share > 0.98
    assert np.median(offices_of_state) < 10


def test_simulate_gives_what_was_asked_for():
    data = simulate(
        {("a",): 30, ("a", "b"): 20, ("c",): 5},
        {"x": 4, "y": 100},
        distortion=[0.0, 0.5],
        missing=0.25,
        duplicates=0.5,
        seed=2,
    )
    assert list(data.tables) == ["a", "b", "c"]
    assert len(np.unique(data.tables["a"]["entity"])) == 50
    assert len(data.tables["a"]) > 50
    merged = data.tables["a"].to_pandas()
    agree = merged.dropna(subset="x").groupby("entity")["x"].nunique()
    assert (agree == 1).all()
    agree = merged.dropna(subset="y").groupby("entity")["y"].nunique()
    assert (agree > 1).any()
    share = merged[["x", "y"]].isna().to_numpy().mean()
    assert share == pytest.approx(0.25, abs=0.1)


def test_a_distorted_value_may_equal_the_true_one():
    rng = np.random.default_rng(0)
    truth, theta = np.zeros((1, 1), np.int32), [np.array([0.7, 0.3])]
    values, distorted = observe(truth, np.zeros(20_000, int), np.array([1.0]), theta, rng)
    assert distorted.all()
    assert (values == 0).mean() == pytest.approx(0.7, abs=0.02)


@pytest.mark.parametrize(
    "wrong", [{"distortion": 1.5}, {"missing": 1.0}, {"duplicates": -1}, {"levels": [0]}]
)
def test_impossible_requests_are_refused(wrong):
    with pytest.raises(ConfigError):
        simulate(**({"overlap": {("a",): 3}, "levels": [2]} | wrong))
