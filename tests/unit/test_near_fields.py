"""Texts, numbers and dates: what they call near, what they are equal to, what they refuse."""

import datetime

import numpy as np
import pyarrow as pa
import pytest

import smered
from smered.errors import ConfigError, DataWarning
from smered.fields import Categorical, Date, Number, Text
from smered.fields.near import near_dates
from smered.model import Model
from smered.posterior import Posterior
from smered.records import Records
from tests.exact.cases import NEAR, fixed_tables, tiny_model
from tests.exact.reference import channel, partitions
from tests.exact.test_reference import bench, log_weights


def coded(field, values):
    records = Records.from_frames(pa.table({field.column: values}), columns=[field.column])
    return field.code(records)


def near_pairs(field, values):
    part = coded(field, values)
    names, found = part.levels.to_pylist(), part.neighbours
    return {
        frozenset((names[v], names[u]))
        for v in range(part.values)
        for u in found.level[found.start[v] : found.start[v + 1]]
    }


@pytest.mark.parametrize("kind", NEAR)
def test_slips_leave_the_shares_as_they_are(kind):
    """phi is stationary under psi, so that a lone value has probability phi, whatever beta."""
    model = tiny_model(near=kind)
    part = model.coded[1]
    share = part.near.share
    psi = channel(part, share, 0.8)
    assert share.sum() == pytest.approx(1.0, abs=1e-12)
    assert psi.sum(axis=1) == pytest.approx(np.ones(len(share)), abs=1e-12)
    assert share @ psi == pytest.approx(share, abs=1e-12)
    if not part.similar.may_equal:
        shown = psi[: part.values, : part.values] - 0.2 * share[: part.values]
        assert np.diag(shown) == pytest.approx(0.0, abs=1e-12)  # a slip never leaves a value


def test_a_text_with_no_similar_values_equals_a_categorical_field():
    rows = {"file": list("AABBC"), "first": ["anna", "otto", "anna", "emil", None],
            "second": ["x", "x", "y", "x", "y"]}  # fmt: skip
    records = Records.from_frames(pa.table(rows), columns=["first", "second"], file_column="file")
    text = Model(records, [Text("first", a=2, b=3), Categorical("second")])
    plain = Model(records, [Categorical("first", a=2, b=3), Categorical("second")])
    assert not text.close.any()
    share = text.coded[0].near.share
    second = np.array([0.4, 0.6])
    beta = np.array([[0.2, 0.3]])
    layout, _, scratch, *_ = bench(text)
    tables = fixed_tables(text, [share, second], beta)
    other_layout, _, other_scratch, *_ = bench(plain)
    other = fixed_tables(plain, [share[:3], second], beta)
    for labels in partitions(5):
        found = log_weights(labels, text, layout, tables, scratch)
        expected = log_weights(labels, plain, other_layout, other, other_scratch)
        assert found == pytest.approx(expected, abs=1e-12)


def test_numbers_near_each_other():
    pairs = near_pairs(Number("n", within=2), ["1950", "1951", "1953", "1905", "1850", "x"])
    assert pairs == {
        frozenset(pair)
        for pair in [("1950", "1951"), ("1951", "1953"), ("1950", "1953"), ("1950", "1905"),
                     ("1950", "1850")]
    }  # fmt: skip


def test_dates_near_each_other():
    pairs = near_pairs(
        Date("d"),
        ["1950-03-04", "1950-04-03", "1951-03-04", "1950-03-05", "1960-03-04", "2001-12-31"],
    )
    assert frozenset(("1950-03-04", "1950-04-03")) in pairs  # day and month changed places
    assert frozenset(("1950-03-04", "1951-03-04")) in pairs  # the year before
    assert frozenset(("1950-03-04", "1950-03-05")) in pairs  # a day later
    assert frozenset(("1950-03-04", "1960-03-04")) in pairs  # one digit
    assert not any("2001-12-31" in pair for pair in pairs)


def test_the_last_and_the_first_day_have_neighbours_on_one_side():
    assert near_dates(datetime.date.max, 1)[0] == datetime.date.max - datetime.timedelta(days=1)
    assert datetime.date(2001, 2, 28) not in near_dates(datetime.date(2000, 2, 29), 0)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Text("t", threshold=1.0), "threshold = 1.0"),
        (lambda: Text("t", scale=-1), "scale = -1"),
        (lambda: Number("n", within=-1), "within = -1"),
        (lambda: Date("d", within=-1), "within = -1"),
        (lambda: Date("d", within=1.5), "within = 1.5 must be a whole number of days"),
        (lambda: coded(Date("d"), ["x", "y"]).near, "field 'd': no value such as 'x' is a date"),
        (lambda: coded(Date("d", format="%d"), ["x", "y"]).near, "format '%d'"),
    ],
)
def test_bad_settings_are_refused(make, message):
    with pytest.raises(ConfigError, match=message):
        make()


def test_a_text_that_is_missing_everywhere():
    with pytest.warns(DataWarning, match="missing in every record"):
        part = coded(Text("t"), pa.array([None, None], pa.string()))
    assert part.similar is None


def test_a_text_that_makes_blocks_is_exact():
    records = Records.from_frames(pa.table({"t": ["a", "a", "b"]}), columns=["t"], blocks="t")
    assert Text("t").code(records).exact


NAMES = {"id": list("abcdef"), "name": ["anna", "anne", "otto", "oto", "emil", "emil"],
         "year": ["1950", "1950", "1961", "1916", "1970", "1970"]}  # fmt: skip


def same_letters(one, two):
    return len(set(one) & set(two)) / len(set(one) | set(two))


@pytest.mark.parametrize("similarity", ["damerau", same_letters])
def test_a_run_keeps_what_is_similar(similarity, tmp_path):
    fields = [Text("name", similarity=similarity, threshold=0.5), Number("year")]
    settings = {"id": "id", "draws": 40, "burn_in": 20, "chains": 2, "seed": 3}
    posterior = smered.link(pa.table(NAMES), fields, out=tmp_path / "run", **settings)
    again = Posterior.open(tmp_path / "run")
    assert again.model.coded[0].neighbours.level.tolist() == (
        posterior.model.coded[0].neighbours.level.tolist()
    )
    assert posterior.closeness.shape == (2, 40, 2)
    assert ((again.closeness > 0) & (again.closeness < 1)).all()
    assert again.theta["name"].shape == (2, 40, 10)  # values and their twins
    for chain, draw in ((0, 3), (1, 39)):
        assert (posterior.true_values(chain, draw) == again.true_values(chain, draw)).all()
    names = again.canonical().column("name").to_pylist()
    assert not any(name.startswith("~") for name in names)
    smered.extend(tmp_path / "run", 20)
    assert Posterior.open(tmp_path / "run").draws == 60


def test_typos_are_linked():
    """A quarter of the people once more, with two letters of the name exchanged."""
    rng = np.random.default_rng(5)
    names = ["".join(rng.choice(list("abcdefghijklmnopqrstuvw"), 8)) for _ in range(80)]
    days = [f"{y}-{m:02}-{d:02}" for y, m, d in zip(rng.integers(1930, 2000, 80),
            rng.integers(1, 13, 80), rng.integers(1, 29, 80), strict=True)]  # fmt: skip
    twice = [name[:3] + name[4] + name[3] + name[5:] for name in names[:20]]
    data = pa.table({"name": names + twice, "day": days + days[:20]})
    fields = [Text("name", a=1, b=49), Date("day", a=1, b=49)]
    posterior = smered.link(data, fields, prior=smered.ClusterSizes(), draws=300, chains=2)
    linked = [posterior.match_probability(i, 80 + i) for i in range(20)]
    assert min(linked) > 0.9
    assert posterior.entities().mean == pytest.approx(80, abs=1)
    assert posterior.closeness[:, :, 0].mean() > 0.8
