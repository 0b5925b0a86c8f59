"""Weighted choice of records and candidates, and the grades behind it."""

import numpy as np
import pytest

import smered
from smered.execute import make_executor
from smered.layout import GRADE_WEIGHT, TOP_GRADE
from smered.sampler import Settings, run_chain
from smered.tuning import (
    even_grades,
    grade_candidates,
    has_partners,
    record_weights,
    with_grades,
)

pytestmark = pytest.mark.plain


def chances(cut, alias):
    """Probability of each record under an alias table."""
    keep = (cut.astype(float) + 1) / 2**32
    found = keep.copy()
    np.add.at(found, alias, 1 - keep)
    return found / len(cut)


@pytest.mark.parametrize("size", [1, 2, 3, 50])
def test_the_alias_table_gives_every_record_its_weight(size):
    from smered.kernels.partners import build_alias

    rng = np.random.default_rng(size)
    for spread in (0.0, 1.0, 4.0):
        weight = np.exp(spread * rng.normal(size=size))
        weight[rng.random(size) < 0.2] = 0.0
        weight[0] = 1.0
        cut, alias = np.empty(size, np.uint32), np.empty(size, np.int32)
        build_alias(weight.copy(), cut, alias)
        assert chances(cut, alias) == pytest.approx(weight / weight.sum(), abs=1e-8)


def test_grades_follow_evenness():
    evenness = np.array([1.0, 0.25, 1e-4, 1e-9, 0.0], np.float32)
    weight = GRADE_WEIGHT[grade_candidates(evenness)]
    assert weight == pytest.approx([1.0, 0.5, 0.01, 0.01, 0.01], rel=0.02)
    start = np.array([0, 1, 1, 9])
    grades = even_grades(start)
    assert grades[0] == TOP_GRADE
    assert GRADE_WEIGHT[grades[1:]].sum() == pytest.approx(1.0, rel=0.1)


def small_model(**settings):
    data = smered.simulate.simulate({("a",): 6, ("a", "b"): 8}, [5, 6, 7], seed=2)
    records = smered.Records.from_frames(data.tables, columns=data.fields, id="id")
    return smered.Model(records, data.fields, **settings)


def test_records_are_chosen_by_the_weights_of_their_candidates():
    from smered.kernels.partners import choose_candidate, choose_record

    model = small_model(duplicates=False)
    layout = model.layout()
    grade = np.random.default_rng(0).integers(100, 256, len(layout.candidates)).astype(np.uint8)
    layout = with_grades(layout, grade, 80, 20)
    weight = record_weights(layout, grade, has_partners(layout))
    assert layout.proposals.sum() == pytest.approx(100)
    n, tries = len(layout.cell), 4000
    words = np.random.default_rng(1).integers(0, 2**64, (tries, 3), np.uint64)
    seen, slots = np.zeros(n), {}
    for t in range(tries):
        column, word, slot = words[t]
        record = choose_record(column >> np.uint64(32), word, 0, n, layout)
        seen[record] += 1
        chosen = choose_candidate(record, slot, layout)
        slots[record, chosen] = slots.get((record, chosen), 0) + 1
    expected = weight / weight.sum()
    assert 0.5 * np.abs(seen / tries - expected).sum() < 0.05
    distance = 0.0
    for record in range(n):
        first, last = layout.candidate_start[record : record + 2]
        for i in range(first, last):
            share = GRADE_WEIGHT[grade[i]] / weight.sum()
            found = slots.get((record, layout.candidates[i]), 0) / tries
            distance += abs(share - found) / 2
    assert distance < 0.12


def test_a_chain_is_tuned_once_after_its_burn_in():
    model = small_model()
    execute = make_executor(model, model.layout(), 1)
    settings = Settings(draws=4, burn_in=3, chains=1)
    grades = [
        step.state.grade.copy() for step in run_chain(model, settings, 0, execute)
    ]  # fmt: skip
    assert [len(grade) for grade in grades[:3]] == [0, 0, 0]
    assert len(grades[3]) == len(execute.layout.candidates)
    assert all((grade == grades[3]).all() for grade in grades[3:])
    assert (execute.layout.grade == grades[3]).all()
    assert len(np.unique(grades[3])) > 3
