"""Tables in, coded records out: every frame type, every mistake."""

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from smered.errors import DataError, DataWarning
from smered.records import Records

ROWS = {"id": [10, 11, 12], "name": ["ann", None, "bob"], "year": [1901.0, float("nan"), 1903.0]}


def frames():
    table = pa.table(ROWS)
    return {
        "pandas": pd.DataFrame(ROWS),
        "polars": pl.DataFrame(ROWS),
        "polars-lazy": pl.LazyFrame(ROWS),
        "arrow": table,
        "duckdb": duckdb.connect().from_arrow(table),
    }


@pytest.mark.parametrize("kind", ["pandas", "polars", "polars-lazy", "arrow", "duckdb"])
def test_every_frame_takes_the_same_path(kind):
    records = Records.from_frames(frames()[kind], columns=["name", "year"], id="id")
    assert records.columns["name"].codes.tolist() == [0, -1, 1]
    assert records.columns["name"].levels.to_pylist() == ["ann", "bob"]
    assert records.columns["year"].codes.tolist() == [0, -1, 1]
    assert records.columns["year"].levels.to_pylist() == [1901, 1903]
    assert records.ids.to_pylist() == ["10", "11", "12"]


def test_one_frame_per_file_and_one_frame_with_a_file_column_agree():
    a, b = pa.table({"f": ["x", "y"]}), pa.table({"f": ["y"]})
    apart = Records.from_frames({"a": a, "b": b}, columns=["f"])
    together = pa.table({"f": ["x", "y", "y"], "source": ["a", "a", "b"]})
    joined = Records.from_frames(together, columns=["f"], file_column="source")
    assert apart.files == joined.files == ("a", "b")
    assert apart.file.tolist() == joined.file.tolist() == [0, 0, 1]
    assert apart.columns["f"].codes.tolist() == joined.columns["f"].codes.tolist() == [0, 1, 1]
    assert apart.ids.to_pylist() == ["1", "2", "1"]
    assert joined.position("b", 1) == 2


def test_missing_markers():
    table = pa.table({"f": ["", "NA", "x", None], "g": [-9, 1, 2, 2]})
    records = Records.from_frames(table, columns=["f", "g"], missing=["", "NA", "-9"])
    assert records.columns["f"].codes.tolist() == [-1, -1, 0, -1]
    assert records.columns["g"].codes.tolist() == [-1, 0, 1, 1]
    assert records.columns["f"].values().null_count == 3


def test_an_empty_text_is_a_value_unless_named():
    records = Records.from_frames(pa.table({"f": ["", "x"]}), columns=["f"])
    assert records.columns["f"].codes.tolist() == [0, 1]


def test_whole_floats_match_integers_of_another_file():
    a, b = pa.table({"f": [1.0, None, 2.0]}), pa.table({"f": [2, 1]})
    records = Records.from_frames({"a": a, "b": b}, columns=["f"])
    assert records.columns["f"].codes.tolist() == [0, -1, 1, 1, 0]


def test_different_types_are_compared_as_text_with_a_warning():
    a, b = pa.table({"f": ["1", "07"]}), pa.table({"f": [1, 7]})
    with pytest.warns(DataWarning, match=r"'f' has different types \('a': string, 'b': int64\)"):
        records = Records.from_frames({"a": a, "b": b}, columns=["f"])
    assert records.columns["f"].levels.to_pylist() == ["07", "1", "7"]


def test_categories_dates_and_booleans():
    table = pa.table({
        "c": pa.array(["u", "v", "u"]).dictionary_encode(),
        "d": pa.array([1, 2, 1], pa.date32()),
        "b": [True, None, False],
    })  # fmt: skip
    records = Records.from_frames(table, columns=["c", "d", "b"])
    assert records.columns["c"].codes.tolist() == [0, 1, 0]
    assert records.columns["d"].codes.tolist() == [0, 1, 0]
    assert records.columns["b"].codes.tolist() == [1, -1, 0]


def test_blocks_from_several_columns_and_from_a_key():
    table = pa.table({"s": ["m", "f", "m", "f"], "y": [1, 1, 2, 1], "f": ["a", "a", "a", "b"]})
    assert Records.from_frames(table, columns=["f"]).block.tolist() == [0, 0, 0, 0]
    by_two = Records.from_frames(table, columns=["f"], blocks=["s", "y"])
    assert by_two.block.tolist() == [1, 0, 2, 0]
    assert by_two.blocks == 3
    assert Records.from_frames(table, columns=["f"], blocks="y").block.tolist() == [0, 0, 1, 0]


GOOD = pa.table({"id": [1, 2], "name": ["x", "y"]})
MISTAKES = {
    "unknown column": (
        {"frames": {"a": GOOD}, "columns": ["nmae"]},
        "file 'a' has no column 'nmae'; did you mean 'name'?",
    ),
    "unknown id": (
        {"frames": {"a": GOOD}, "columns": ["name"], "id": "zzz"},
        "file 'a' has no column 'zzz'; there are: 'id', 'name'",
    ),
    "no rows": (
        {"frames": {"a": GOOD, "b": GOOD[:0]}, "columns": ["name"]},
        "file 'b' has no rows",
    ),
    "no files": ({"frames": {}, "columns": ["name"]}, "no files given"),
    "not a frame": (
        {"frames": {"a": 3}, "columns": ["name"]},
        "file 'a': int is not a data frame",
    ),
    "duplicate ids": (
        {"frames": {"a": pa.table({"id": [1, 2, 1], "f": list("xyz")})}, "columns": ["f"],
         "id": "id"},
        "id column 'id' of file 'a' has 1 twice, in rows 1 and 3",
    ),
    "missing id": (
        {"frames": {"a": pa.table({"id": [1, None], "f": list("xy")})}, "columns": ["f"],
         "id": "id"},
        "id column 'id' of file 'a' has no value in row 2",
    ),
    "missing block": (
        {"frames": {"a": GOOD, "b": pa.table({"id": [1, 2], "name": ["x", None]})},
         "columns": ["id"], "blocks": "name"},
        "block column 'name' has no value in 1 record(s), first in file 'b', row 2; every record",
    ),
    "missing file": (
        {"frames": pa.table({"f": ["x", "y"], "s": ["a", None]}), "columns": ["f"],
         "file_column": "s"},
        "file column 's' has no value in row 2",
    ),
    "file column twice": (
        {"frames": {"a": GOOD, "b": GOOD}, "columns": ["name"], "file_column": "name"},
        "either one frame per file or a file column",
    ),
    "column twice": (
        {"frames": {"a": pa.Table.from_arrays([[1], [2]], names=["f", "f"])}, "columns": ["f"]},
        "file 'a' has a column more than once: 'f' 2 times; rename it",
    ),
    "nested type": (
        {"frames": {"a": pa.table({"f": [[1], [2]]})}, "columns": ["f"]},
        "column 'f' has type list<item: int64>, which cannot be coded",
    ),
}  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_are_named_with_a_remedy(mistake):
    arguments, message = MISTAKES[mistake]
    with pytest.raises(DataError) as caught:
        Records.from_frames(**arguments)
    assert message in str(caught.value)


def test_unknown_records_are_named():
    records = Records.from_frames({"a": GOOD}, columns=["name"], id="id")
    with pytest.raises(DataError, match="no file 'b'"):
        records.position("b", 1)
    with pytest.raises(DataError, match="no record with id 7"):
        records.position("a", 7)


def test_block_numbers_are_dense():
    table = pa.table({"b": ["z", "a", "z"], "f": ["x", "x", "x"]})
    block = Records.from_frames(table, columns=["f"], blocks="b").block
    assert np.unique(block).tolist() == [0, 1]
