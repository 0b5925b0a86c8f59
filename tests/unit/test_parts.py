"""Parts of the records and sums of whole numbers: the same however the work is shared out."""

import warnings

import numpy as np
import pyarrow as pa
import pytest

import smered
from smered.execute import make_executor
from smered.labels import Groups, share_over_blocks, share_over_groups
from smered.layout import LinkagePrior
from smered.parts import RECORDS_PER_PART, cut_records
from smered.state import start_state, tabulate_state
from smered.sums import add_up, as_floats
from smered.tuning import Totals, add_totals


def test_parts_end_with_blocks():
    assert cut_records(np.array([5, 1, 1, 5, 4]), 2).tolist() == [0, 12, 16]
    assert cut_records(np.array([5, 1, 1, 5, 4]), 4).tolist() == [0, 5, 12, 16]
    assert cut_records(np.array([7])).tolist() == [0, 7]
    many = np.full(3000, 500)
    cuts = cut_records(many)
    assert len(cuts) - 1 == many.sum() // RECORDS_PER_PART
    assert (cuts % 500 == 0).all()


def test_parts_may_end_anywhere():
    assert cut_records(np.array([16]), 3, anywhere=True).tolist() == [0, 6, 11, 16]
    assert cut_records(np.array([2, 3]), 9, anywhere=True).tolist() == [0, 1, 2, 3, 4, 5]


def test_labels_of_some_blocks_are_those_of_all():
    """Whoever holds some blocks finds the labels that they have among all blocks."""
    sizes = np.random.default_rng(1).integers(1, 60_000, 40)
    whole = Groups.of(sizes)
    assert len(whole.sizes) > 3
    prior = LinkagePrior(0.0, 100_000, np.empty(0), np.empty(0), np.empty(0))
    by_group = share_over_groups(prior, np.zeros(3), whole.sizes, 1, 0, 5, 2)
    everywhere = share_over_blocks(by_group, whole, 1, 0, 5, 2)
    assert by_group.free.sum() == everywhere.free.sum() == 100_000
    assert np.exp(-everywhere.log_unit) == pytest.approx(sizes / sizes.sum())
    for first, last in ((0, 40), (0, 7), (7, 23), (23, 40), (39, 40)):
        some = share_over_blocks(by_group, Groups.of(sizes, first, last), 1, 0, 5, 2)
        assert (some.free == everywhere.free[first:last]).all()
        assert (some.log_unit == everywhere.log_unit[first:last]).all()


def test_threads_may_have_no_records():
    """As a worker that holds none of the entities for a sweep."""
    records = smered.Records.from_frames(pa.table({"f": ["x", "x"]}), columns=["f"])
    model = smered.Model(records, ["f"], pairs=smered.RotatingBlocks())
    execute = make_executor(model, model.layout(), 2)
    arranged = model.arrange_values(
        np.empty((0, 1), np.int32), np.empty(0, np.int32), np.empty(0, np.int64)
    )
    execute.use(model.lay_out(arranged, model.pairs.tables(arranged)))
    state = start_state(model, execute.layout, 0, 0)
    assert state.entities == 0
    counted = execute.count(state, tabulate_state(state, model), 0, 0)
    assert counted.entities[0] == 0
    assert execute.kinds(state).numbers.sum() == 0
    execute.close()


def test_sums_do_not_depend_on_the_order():
    values = np.random.default_rng(2).normal(-30, 200, (1000, 3))
    whole = add_up(values)
    assert (add_up(values[::-1]) == whole).all()
    assert (add_up(values[:400]) + add_up(values[400:]) == whole).all()
    assert as_floats(whole) == pytest.approx(values.sum(axis=0), abs=1e-9)


def test_totals_of_parts_add_up():
    parts = [Totals(10, 2, 7, 3), Totals(0, 4, 4, 0), Totals(5, 0, 2, 2)]
    assert add_totals(parts) == Totals(15, 6, 13, 2)


def test_a_run_in_parts_has_the_posterior_of_one_part(tmp_path):
    data = smered.simulate.simulate({("a",): 60, ("a", "b"): 80}, [6, 8, 7, 9], seed=3)
    records = smered.Records.from_frames(
        data.tables, columns=data.fields, id="id", blocks=data.fields[:1]
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        one, four = (
            smered.sample(
                smered.Model(records, data.fields),
                out=tmp_path / str(parts), parts=parts, draws=20, burn_in=20, chains=2, threads=1,
            )
            for parts in (1, 4)
        )  # fmt: skip
    assert len(list((tmp_path / "4" / "records").glob("part-*"))) > 1
    assert len(list((tmp_path / "1" / "records").glob("part-*"))) == 1
    for chain in range(2):
        for draw in range(20):
            assert (one.at(chain, draw).entities == four.at(chain, draw).entities).all()
