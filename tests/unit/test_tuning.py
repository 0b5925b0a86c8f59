"""Weighted choice of records and candidates, and the grades behind it."""

import numpy as np
import pytest

import smered
from smered import model as model_module
from smered.execute import make_executor
from smered.kernels import partners
from smered.layout import TOP_GRADE
from smered.sampler import Settings, run_chain, tuning_sweeps
from smered.tuning import (
    count_totals,
    even_grades,
    grade_candidates,
    has_partners,
    record_weights,
    with_grades,
)
from tests.kernels import from_python

pytestmark = pytest.mark.plain


def chances(cut, alias):
    """Probability of each record under an alias table."""
    keep = (cut.astype(float) + 1) / 2**32
    found = keep.copy()
    np.add.at(found, alias, 1 - keep)
    return found / len(cut)


@pytest.mark.parametrize("size", [1, 2, 3, 50])
def test_the_alias_table_gives_every_record_its_weight(size):
    build_alias = from_python(partners.build_alias)

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
    grade = grade_candidates(evenness)
    assert grade / TOP_GRADE == pytest.approx([1.0, 0.5, 0.01, 0.0, 0.0], abs=0.002)
    again = grade_candidates(np.array([0.0, 0.25, 1e-4, 1.0, 0.0], np.float32), grade, 3)
    mean = np.array([0.75, 0.25, 1e-4, 0.25, 0.0])  # of four states
    assert again / TOP_GRADE == pytest.approx(np.sqrt(mean), abs=0.003)
    start = np.array([0, 1, 1, 9])
    grades = even_grades(start)
    assert grades[0] == TOP_GRADE
    assert grades[1:].sum() == pytest.approx(TOP_GRADE, rel=0.1)


def small_model(**settings):
    data = smered.simulate.simulate({("a",): 6, ("a", "b"): 8}, [5, 6, 7], seed=2)
    records = smered.Records.from_frames(data.tables, columns=data.fields, id="id")
    return smered.Model(records, data.fields, **settings)


def test_records_are_chosen_by_the_weights_of_their_candidates():
    choose_candidate = from_python(partners.choose_candidate)
    choose_record = from_python(partners.choose_record)

    model = small_model(duplicates=False)
    layout = model.layout()
    grade = np.random.default_rng(0).integers(100, 256, len(layout.candidates)).astype(np.uint8)
    layout = with_grades(layout, grade, 80, 20)
    least = count_totals(layout, grade).least
    weight = record_weights(layout, grade, has_partners(layout), least)
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
            share = grade[i] / weight.sum()
            found = slots.get((record, layout.candidates[i]), 0) / tries
            distance += abs(share - found) / 2
    assert distance < 0.12


def test_a_chain_is_tuned_in_its_burn_in_and_never_after(monkeypatch):
    monkeypatch.setattr(model_module, "LEAST_PROPOSALS", 1)
    model = small_model()
    assert tuning_sweeps(Settings(burn_in=3)) == [3]
    assert tuning_sweeps(Settings(burn_in=200)) == [116, 128, 140, 152, 164, 176, 188, 200]
    assert tuning_sweeps(Settings(burn_in=0)) == []
    layout = model.layout()
    execute = make_executor(model, layout, 1)
    settings = Settings(draws=4, burn_in=16, chains=1)
    grades, proposals = [], []
    for step in run_chain(model, settings, 0, execute):
        grades.append(step.state.grade.copy())
        proposals.append(execute.layout.proposals.sum())
    assert [len(grade) for grade in grades[:9]] == [0] * 9
    assert all(len(grade) == len(layout.candidates) for grade in grades[9:])
    assert all((grade == grades[16]).all() for grade in grades[16:])
    assert len(np.unique(grades[16])) > 3
    assert proposals[:16] == [layout.proposals.sum()] * 16
    assert proposals[16] < proposals[15]
    idle = grades[16] == 0
    assert proposals[16] == proposals[19]
    assert (execute.layout.grade == grades[16][~idle]).all()
    assert (execute.layout.candidates == layout.candidates[~idle]).all()
    assert execute.layout.candidate_start[-1] == len(execute.layout.candidates)
