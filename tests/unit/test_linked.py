"""Linked data sets equal what a naive join of the records says."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import smered
from smered.errors import ConfigError, DataError
from smered.fields import Categorical, Date, Joint, Number, Text
from smered.imputations import write_imputations
from smered.posterior.linked import readable

NAMES = ["anna", "anne", "otto", "ottilie", "karl", "carl", "eva", "ewa"]


def files(rng):
    """Two files of the same people: one with an income, the other with a weight and a note."""
    people = [
        {"name": NAMES[i % 8], "year": 1950 + i % 20, "state": f"s{i % 3}", "office": f"0{i % 4}"}
        for i in range(30)
    ]
    one, two = rng.permutation(30)[:22], rng.permutation(30)[:20]
    clinic = pa.Table.from_pylist(
        [people[i] | {"key": f"c{i}", "weight": 60.5 + i, "note": None if i % 5 else "x"}
         for i in one]
    )  # fmt: skip
    survey = pa.Table.from_pylist(
        [people[i] | {"key": f"s{i}", "weight": 61.5 + i, "income": f"{i}00" if i % 7 else "NA"}
         for i in two]
    )  # fmt: skip
    return {"clinic": clinic, "survey": survey}


FIELDS = [Text("name", a=1, b=19), Number("year", a=1, b=19), Joint("state", "office", a=1, b=19)]


@pytest.fixture(scope="module", params=["memory", "folder"])
def posterior(request, tmp_path_factory):
    out = tmp_path_factory.mktemp("linked") / "run" if request.param == "folder" else None
    made = smered.link(
        files(np.random.default_rng(3)), FIELDS, id="key", missing=["NA"], draws=20, burn_in=30,
        chains=2, out=out,
    )  # fmt: skip
    return made if out is None else smered.Posterior.open(out)


def test_wide_by_hand(posterior):
    records, inputs = posterior.records, posterior.records.inputs
    sizes = {file: len(inputs[file]) for file in records.files}
    for draw in (0, 7, 33):
        table = posterior.linked(draw).to_pylist()
        chain, number = divmod(draw, posterior.draws)
        linkage = posterior.linkage(chain, number)
        true = posterior.true_values(chain, number)
        entities = np.flatnonzero(linkage == np.arange(len(linkage)))
        assert len(table) == len(entities)
        for row, first in zip(table, entities, strict=True):
            members = np.flatnonzero(linkage == first)
            held = {
                file: [m for m in members if records.file[m] == i]
                for i, file in enumerate(records.files)
            }
            file = records.files[records.file[first]]
            assert row["entity"] == f"{file}:{records.ids[int(first)]}"
            found = []
            for file, own in held.items():
                assert row[f"records_{file}"] == len(own)
                at = own[0] - (0 if file == "clinic" else sizes["clinic"]) if own else None
                if own:
                    found.append(int(own[0]))
                given = inputs[file].slice(at, 1).to_pylist()[0] if own else {}
                assert row[f"id_{file}"] == given.get("key")
                assert row[f"weight_{file}"] == given.get("weight")
                if file == "clinic":
                    assert row["note"] == given.get("note")
                else:
                    income = given.get("income")
                    assert row["income"] == (None if income in (None, "NA") else int(income))
            expected = 1.0 if len(found) < 2 else posterior.match_probability(*found)
            assert row["match_probability"] == pytest.approx(expected)
            year = true[first, 1]
            known = posterior.model.coded[1]
            assert row["year"] == (
                int(known.levels[int(year)].as_py()) if 0 <= year < known.values else None
            )
            both = true[first, 2]
            joint = posterior.model.coded[2].levels[int(both)].as_py()
            assert f"{row['state']} | {row['office']}" == joint  # "00" stays a code


def test_long_keeps_every_record(posterior):
    table = posterior.linked((1, 4), layout="long")
    n = len(posterior.records)
    assert table.column_names == [
        "entity", "file", "id", "name", "year", "state", "office", "weight", "note", "income",
    ]  # fmt: skip
    assert len(table) == n
    assert table["id"].to_pylist() == posterior.records.ids.to_pylist()
    wide = posterior.linked((1, 4))
    years = dict(zip(wide["entity"].to_pylist(), wide["year"].to_pylist(), strict=True))
    assert [years[e] for e in table["entity"].to_pylist()] == table["year"].to_pylist()
    assert table.schema.field("income").type == pa.int64()
    assert table["income"].null_count > sum(posterior.records.file == 0)  # and the markers


def test_an_estimate_is_linked_like_a_draw(posterior):
    estimate = posterior.estimate()
    table = posterior.linked(estimate)
    assert len(table) == len(estimate)
    canonical = posterior.canonical(estimate)
    shown = canonical["year"].to_pylist()
    assert [None if y is None else str(y) for y in table["year"].to_pylist()] == shown
    assert table["records_clinic"].to_numpy().sum() == 22


def test_columns_are_chosen(posterior):
    table = posterior.linked(0, columns=["income", "year"])
    assert table.column_names == ["income", "year"]
    with pytest.raises(ConfigError, match=r"no column 'incom'.*income"):
        posterior.linked(0, columns=["incom"])
    with pytest.raises(ConfigError, match="'wide' or 'long'"):
        posterior.linked(0, layout="tall")
    with pytest.raises(DataError, match="no draw"):
        posterior.linked(10_000)
    # which files a row's columns come from decides what must match
    alone = posterior.linked(0, columns=["match_probability", "income"])
    assert set(alone["match_probability"].to_pylist()) == {1.0}


def test_imputations_are_spread_over_all_draws(posterior):
    found = posterior.imputations(6)
    assert len(found) == 6
    assert [chain for chain, _ in found.spots] == [0, 0, 0, 1, 1, 1]
    tables = list(found)
    for i, table in enumerate(tables):
        assert table.equals(found[i])
        assert table.equals(posterior.linked(found.spots[i]))
    assert [t.equals(u) for t, u in zip(found[1:3], tables[1:3], strict=True)] == [True, True]
    for wrong in (0, 41):
        with pytest.raises(ConfigError, match="the run has 40"):
            posterior.imputations(wrong)


@pytest.mark.parametrize("layout", ["wide", "long"])
def test_written_imputations_have_the_same_rows(posterior, layout, tmp_path):
    """What mice and mi demand: a data set 0, the same rows, and what varies is empty in it."""
    paths = write_imputations(posterior, tmp_path, 4, layout=layout)
    assert sorted(path.name for path in paths) == ["imputations.csv", "imputations.parquet"]
    table = pq.read_table(tmp_path / "imputations.parquet").to_pandas()
    n = len(posterior.records)
    assert table["imputation"].tolist() == [i for i in range(5) for _ in range(n)]
    assert table["row"].tolist() == list(range(1, n + 1)) * 5
    first = table[table.imputation == 0]
    for name in table.columns[2:]:
        sets = [table.loc[table.imputation == i, name].tolist() for i in range(1, 5)]
        if first[name].notna().any():
            assert all(str(each) == str(first[name].tolist()) for each in sets), name
        else:
            assert layout == "wide" or name in ("entity", "name", "year", "state", "office", "note")
    for number, own in enumerate(posterior.imputations(4, layout=layout), 1):
        rows = table[(table.imputation == number) & table.entity.notna()]
        assert rows["entity"].tolist() == own["entity"].to_pylist()
        if layout == "wide":
            names = [f"{f}:{i}" for f, i in zip(
                np.array(posterior.records.files)[posterior.records.file],
                posterior.records.ids.to_pylist(), strict=True)]  # fmt: skip
            assert [names[r - 1] for r in rows["row"]] == rows["entity"].tolist()
            assert rows["income"].fillna(-1).tolist() == [
                -1 if v is None else v for v in own["income"].to_pylist()
            ]
    with pytest.raises(ConfigError, match="one of: csv, parquet"):
        write_imputations(posterior, tmp_path, 4, formats=["xlsx"])


def test_one_file_with_duplicates_and_blocks():
    table = pa.table(
        {"name": ["x", "x", "y"], "region": [1, 1, 2], "entity": ["p", "q", "r"], "when": [1, 2, 3]}
    )
    posterior = smered.link(
        table, [Categorical("name", b=np.inf)], blocks="region", draws=5, burn_in=5, chains=1,
        prior=smered.UniformPartitions(),
    )  # fmt: skip
    wide = posterior.linked(posterior.estimate())
    assert wide.column_names == [
        "entity", "records", "name", "region", "id", "input_entity", "when",
    ]  # fmt: skip
    assert wide["region"].to_pylist() == [1] * (len(wide) - 1) + [2]
    assert wide["records"].to_numpy().sum() == 3
    assert wide["when"].to_pylist()[0] == 1  # the first record's


def test_no_column_is_lost():
    """Names that clash: an id that is not the id, and a column called like a shared one's."""
    a = pa.table({"f": ["x", "y"], "rid": ["r1", "r2"], "id": ["i1", "i2"], "w": [1, 2],
                  "w_a": [3, 4], "tags": [["p"], ["q", "NA"]], "raw": [b"\xff", b"a"]})  # fmt: skip
    b = pa.table({"f": ["x"], "rid": ["s1"], "id": ["j1"], "w": [5]})
    posterior = smered.link(
        {"a": a, "b": b}, ["f"], id="rid", missing=["NA"], draws=5, burn_in=5, chains=1
    )
    wide = posterior.linked(np.int64(0))
    assert wide.column_names[4:] == [
        "f", "id_a", "input_id_a", "w_a", "input_w_a", "tags", "raw", "id_b", "input_id_b", "w_b",
    ]  # fmt: skip
    row = next(r for r in wide.to_pylist() if r["id_a"] == "r1")
    assert (row["input_id_a"], row["w_a"], row["input_w_a"], row["raw"]) == ("i1", 1, 3, b"\xff")


def test_numbers_are_read_where_all_are(posterior):
    def read(values, kind=None):
        return readable(pa.array(values), kind).to_pylist()

    assert read(["1", "-2", None, "0"]) == [1, -2, None, 0]
    assert read(["1.5", "2", "1e3"]) == [1.5, 2.0, 1000.0]
    assert read(["01", "2"]) == ["01", "2"]
    assert read(["", "2"]) == ["", "2"]
    assert read([None, None]) == [None, None]
    assert read(["2001-02-03"], pa.date32())[0].year == 2001
    assert read(["7", "8"], pa.int32()) == [7, 8]
    assert read(["x"], pa.int32()) == ["x"]
    assert readable(pa.array(["a", "b"]).dictionary_encode()).type == pa.string()


def test_dates_keep_their_type():
    days = pa.array(["1970-01-02", "1970-01-02", "1980-05-06"]).cast(pa.date32())
    posterior = smered.link(pa.table({"born": days}), [Date("born")], draws=5, burn_in=5, chains=1)
    assert posterior.linked(0).schema.field("born").type == pa.date32()
