"""Parquet tables: files, folders, pieces, and places on other file systems."""

import sys
import warnings

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import smered
from smered.errors import DataError
from smered.records import Records
from smered.sources import find_pieces, parquet, read_sources, to_folder
from smered.sources.parquet import find_parquet, read_piece


def write_folder(folder, *tables):
    folder.mkdir()
    for number, table in enumerate(tables):
        pq.write_table(table, folder / f"part-{number}.parquet", row_group_size=2)
    return folder


def test_a_folder_is_one_table_in_the_order_of_names(tmp_path):
    one, two = pa.table({"f": [1, 2, 3]}), pa.table({"f": [4, 5]})
    folder = write_folder(tmp_path / "people.d", one, two)
    (folder / "_SUCCESS").write_text("")
    (folder / ".part-9.parquet").write_text("hidden")
    (source,) = read_sources([str(folder)]).values()
    assert source.name == "people"
    assert source.table["f"].to_pylist() == [1, 2, 3, 4, 5]
    assert source.rows == 5


def test_pieces_hold_every_row_once(tmp_path, monkeypatch):
    monkeypatch.setattr(parquet, "ROWS_PER_PIECE", 3)
    table = pa.table({"f": list(range(11)), "g": [f"v{i}" for i in range(11)]})
    folder = write_folder(tmp_path / "t", table, table.slice(0, 1))
    found = find_parquet(str(folder))
    assert [piece.rows for piece in found.pieces] == [4, 4, 3, 1]
    pq.write_table(table.slice(0, 0), folder / "part-3.parquet")
    assert find_parquet(str(folder)).pieces == found.pieces
    assert found.rows == 12
    whole = pa.concat_tables([read_piece(piece) for piece in found.pieces])
    assert whole.equals(pa.concat_tables([table, table.slice(0, 1)]))
    assert read_piece(found.pieces[0], ["g"]).column_names == ["g"]


def test_only_parquet_is_left_unread(tmp_path):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"f": [1]}), path)
    (tmp_path / "b.csv").write_text("f\n1\n")
    assert set(find_pieces([f"one={path}"])) == {"one"}
    assert find_pieces([str(path), str(tmp_path / "b.csv")]) is None
    assert find_pieces([f"sqlite:{tmp_path / 'x.db'}?t"]) is None


def test_what_is_wrong_is_named(tmp_path, monkeypatch):
    mixed = write_folder(tmp_path / "mixed", pa.table({"f": [1]}), pa.table({"f": ["x"]}))
    broken = write_folder(tmp_path / "broken", pa.table({"f": [1]}))
    (broken / "part-0.parquet").write_bytes(b"PAR1 and no more")
    cases = {
        str(
            mixed
        ): rf"^{mixed}/part-1\.parquet has other columns than .*part-0\.parquet, or other types",
        str(broken): "is a damaged Parquet file",
        "nosuch://host/a.parquet": "^an address that begins with nosuch:// cannot be read",
        f"file://{tmp_path}/none.parquet": "none.parquet does not exist$",
    }
    for place, message in cases.items():
        with pytest.raises(DataError, match=message):
            read_sources([place])
    monkeypatch.setitem(sys.modules, "fsspec", None)
    with pytest.raises(
        DataError,
        match=r"^ftp://host/a.parquet: reading ftp:// needs fsspec; pip install 'smered\[rem",
    ):
        read_sources(["ftp://host/a.parquet"])


def test_no_password_is_shown(tmp_path):
    """The password is wrong and the server is not there: the error names neither."""
    place = "ftp://reader:secret@127.0.0.1:1/a.parquet"
    with pytest.raises(DataError, match=r"cannot read ftp://reader@127\.0\.0\.1:1/a\.parquet") as e:
        read_sources([place])
    assert "secret" not in str(e.value)
    assert to_folder(f"a={place}", tmp_path) == "a=ftp://reader@127.0.0.1:1/a.parquet"


@pytest.mark.parametrize(
    ("place", "label"),
    [
        ("ftp://u:p@ss@host/f", "ftp://u@host/f"),
        ("s3://AK:SE/CRET@bucket/f?region=eu-1", "s3://AK@bucket/f?region=eu-1"),
        ("https://host/f?sig=TOKEN&scheme=http", "https://host/f?scheme=http"),
        ("https://host/f?X-Amz-Signature=T%2FK", "https://host/f"),
        ("s3://bucket/a:b/f", "s3://bucket/a:b/f"),
        ("plain/f@x.parquet", "plain/f@x.parquet"),
    ],
)
def test_labels_hold_no_secrets(place, label):
    assert parquet.label_of(place) == label
    told = str(parquet.damaged(place, OSError(f"no answer from {place}")))
    for secret in ("p@ss", "SE/CRET", "TOKEN", "T%2FK"):
        assert secret not in told


def test_an_address_of_this_machine(tmp_path):
    pq.write_table(pa.table({"f": [1, 2]}), tmp_path / "a.parquet")
    (source,) = read_sources([f"file://{tmp_path}/a.parquet"]).values()
    assert source.table["f"].to_pylist() == [1, 2]
    assert source.name == "a"


def test_link_takes_paths_as_it_takes_tables(tmp_path):
    data = smered.simulate.simulate({("a",): 20, ("a", "b"): 20}, [4, 5, 6], seed=1)
    places = {name: tmp_path / f"{name}.parquet" for name in data.tables}
    for name, table in data.tables.items():
        pq.write_table(table, places[name])
    how = {"id": "id", "draws": 5, "burn_in": 5, "chains": 1}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        one, two = (smered.link(each, data.fields, **how) for each in (data.tables, places))
    assert (one.at(0, 4).linkage == two.at(0, 4).linkage).all()
    (tmp_path / "c.csv").write_text("f\nx\ny\n")
    assert len(Records.from_frames(tmp_path / "c.csv", columns=["f"])) == 2
