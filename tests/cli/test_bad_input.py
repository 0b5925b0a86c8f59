"""What people get wrong: one line that names file, column, row and remedy; no traceback."""

import sqlite3
import subprocess

import pytest

from smered import sources
from tests.cli.program import QUICK, process

GOOD = b"id,name,sex\n1,Ann,f\n2,Bob,m\n3,Cid,m\n4,Ann,f\n"


@pytest.fixture
def refused(smered_, tmp_path):
    """Link files that hold the given bytes and return the error, which must be one line."""

    def attempt(*contents, flags=("--id", "id"), code=2):
        names = []
        for number, content in enumerate(contents):
            name = f"{'abc'[number]}.csv"
            (tmp_path / name).write_bytes(content)
            names.append(name)
        result = smered_("link", *names, *flags, *QUICK, "--out", "run")
        assert result.code == code, result
        assert "Traceback" not in result.err + result.out
        assert result.err.startswith("smered: ")
        assert len(result.err.strip().split("\n")) == 1
        assert not (tmp_path / "run").exists()
        return result.err

    return attempt


def test_missing_file(smered_, tmp_path):
    (tmp_path / "people.csv").write_bytes(GOOD)
    assert "did you mean 'people.csv'?" in smered_("link", "peple.csv").err
    assert "no folder elsewhere" in smered_("link", "elsewhere/people.csv").err
    assert smered_("link", "peple.csv").code == 2
    assert "no files given" in smered_("link").err


def test_directory(smered_, tmp_path):
    (tmp_path / "folder").mkdir()
    assert "folder is a folder; name the files in it" in smered_("link", "folder").err


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "a.csv is empty"),
        (b"id,name,sex\n", "a.csv has a header but no rows"),
        (b"id,name,sex", "a.csv has a header but no rows"),
        (b"\x7fELF\x00\x01\x02\x00", "a.csv is a binary file"),
        (b"PK\x03\x04rest", "Excel workbook"),
        (b"PAR1rest of no parquet file", "a.csv is a damaged Parquet file"),
        (b"ARROW1rest of no arrow file", "a.csv is a damaged Arrow file"),
        (b"id,name,sex\n1,Ann,f\n2,Bob\n", "row 2 has 2 values where the header has 3 columns"),
        (b"id,name,sex\n1,Ann,f\n2,Bob,m,m\n", "row 2 has 4 values where the header has 3 columns"),
        (b'id,name,sex\n1,"Ann,f\n2,Bob,m\n', "line 2 opens a quotation mark"),
        (b"id,name,name\n1,Ann,f\n", "column 'name' more than once, at positions 2, 3"),
        (b",,\n1,2,3\n", "has no header"),
        (b"id,name,sex\n1,Ann,f\n1,Bob,m\n", "has 1 twice, in rows 1 and 2"),
        (b"id,name,sex\n1,Ann,f\n,Bob,m\n", "id column 'id' of file 'a' has no value in row 2"),
        (b"id,name,sex\n1,,\n2,,\n", "every value of name, sex is missing"),
    ],
)
def test_one_bad_file(refused, content, message):
    assert message in refused(content)


def test_a_row_is_named_in_a_long_file(refused):
    rows = [f"{i},Ann,f".encode() for i in range(200_000)]
    rows[123_456] += b",too,many"
    assert "row 123457 has 5 values" in refused(b"id,name,sex\n" + b"\n".join(rows) + b"\n")


def test_wrong_delimiter(refused):
    error = refused(GOOD, flags=("--id", "id", "--delimiter", ";"))
    assert "one column only, 'id,name,sex'; is the delimiter right?" in error
    colons = GOOD.replace(b",", b"~")
    assert "one column only, 'id~name~sex'" in refused(colons, flags=("--id", "id"))
    assert "must be one plain character" in refused(GOOD, flags=("--delimiter", ";;"))


def test_not_utf_8(refused, smered_, tmp_path):
    latin = GOOD.replace(b"Bob", "Jérôme".encode("latin-1"))
    error = refused(latin, flags=("--id", "id", "--encoding", "utf-8"))
    assert "a.csv: line 3 is not utf-8 (byte 0xe9)" in error
    assert "--encoding" in error
    both = GOOD.replace(b"Bob", "Jérôme".encode("latin-1")).replace(b"Cid", "Núñez".encode())
    assert "a.csv mixes encodings: line 4 is UTF-8, line 3 is not" in refused(both)
    wide = GOOD.decode().encode("utf-16-le")
    assert "wants --encoding utf-16-le" in refused(wide)
    assert "encoding 'uft-8' is unknown" in refused(latin, flags=("--encoding", "uft-8"))
    found = smered_("link", "a.csv", "--id", "id", "--dry-run")
    assert "cp1252" in found.out
    assert "if letters look wrong, give --encoding" in found.out


def test_columns_that_only_some_files_have(refused):
    error = refused(GOOD, GOOD.replace(b"name", b"nmae"))
    assert "file 'b' has no column 'name', which other files have; did you mean 'nmae'?" in error
    assert "--ignore" in error
    error = refused(GOOD, flags=("--id", "id", "--field", "nam"))
    assert "file 'a' has no column 'nam'; did you mean 'name'?" in error
    assert "no file has a column 'fulname'" in refused(GOOD, flags=("--ignore", "fulname"))
    assert "no column 'ident'" in refused(GOOD, flags=("--id", "ident"))
    assert "'sexx'; did you mean 'sex'?" in refused(GOOD, flags=("--block", "sexx"))
    assert "no file has a column 'prson'" in refused(GOOD, flags=("--truth", "prson"))
    assert "duplicates: no file 'b'" in refused(GOOD, flags=("--no-duplicates-in", "b"))


def test_a_field_missing_everywhere_is_noted(smered_, tmp_path):
    (tmp_path / "a.csv").write_bytes(b"id,name,sex\n1,Ann,\n2,Ann,\n3,Bob,\n")
    result = smered_("link", "a.csv", "--id", "id", *QUICK)
    assert result.code == 0
    assert "Note: field 'sex' is missing in every record" in result.err


def test_names_that_clash(refused, smered_, tmp_path):
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "a.csv").write_bytes(GOOD)
    (tmp_path / "a.csv").write_bytes(GOOD)
    assert "would both be called 'a'" in smered_("link", "a.csv", "more/a.csv").err


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[data]\nidd = 'id'\n", "link.toml, line 2: data.idd: unknown key; did you mean 'id'?"),
        ("[smapling]\ndraws = 3\n", "line 1: smapling: unknown key; did you mean 'sampling'?"),
        ("[data]\nid = 'id'\nid = \n", "not valid TOML"),
        ("[data]\n\nmissing = ['NA'\n[x]", "line 4"),
        ("[sampling]\ndraws = 'many'\n", "line 2: sampling.draws: it should be a valid integer"),
        ("[sampling]\nthin = -1\n", "line 2: sampling.thin: it should be greater than or equal"),
        ("[model]\na = -1\n", "line 2: model.a: it should be greater than 0"),
        ("[fields.sex]\ntype = 'text'\n\n[fields.name]\ntype = 'txt'\n", "line 5: fields.name"),
        ("[fields.name]\ntype = 'txt'\n", "line 2: fields.name.type: it should be 'categorical'"),
        ("[fields.name]\ntyp = 'exact'\n", "did you mean 'type'?"),
        ("[model.prior]\ntype = 'ewens'\ndiscount = 0.5\n", "does not belong to the prior 'ewens'"),
        ("[fields.j]\ntype = 'joint'\n", "needs columns = [...]"),
    ],
)
def test_bad_configuration(refused, tmp_path, text, message):
    (tmp_path / "link.toml").write_text(text)
    assert message in refused(GOOD, flags=("--config", "link.toml"))


def test_missing_configuration(refused):
    assert "no.toml does not exist" in refused(GOOD, flags=("--config", "no.toml"))


def test_impossible_flags(refused):
    assert "sampling.thin" in refused(GOOD, flags=("--thin", "0"))
    for apart in ("--ignore", "--truth"):
        error = refused(GOOD, flags=("--field", "name", "--field", "sex", apart, "sex"))
        assert "'sex' is a field and also set apart" in error
    assert "'id' is a field and also" in refused(GOOD, flags=("--field", "id", "--id", "id"))
    error = refused(GOOD, flags=("--field", "name:txt"))
    assert "there is no type 'txt'; did you mean 'text'?" in error
    assert "no value such as 'Ann' is a number" in refused(GOOD, flags=("--field", "name:number"))
    error = refused(GOOD, flags=("--field", "name:date"))
    assert "is a date in a common format; say its format, such as format = " in error
    both = ("--no-duplicates", "--no-duplicates-in", "a")
    assert "--no-duplicates" in refused(GOOD, flags=both)
    assert "did you mean 'csv'?" in refused(GOOD, flags=("--format", "cvs"))
    assert "between 0 and 1" in refused(GOOD, flags=("--min-probability", "7"))
    assert "link.toml" in refused(GOOD, flags=("--field", "name:joint"))
    assert "several files, or one file with a file column" in refused(
        GOOD, GOOD, flags=("--file-column", "sex")
    )


def test_unknown_flags_are_exit_code_2(smered_):
    result = smered_("link", "--drwas", "3")
    assert result.code == 2
    assert "--draws" in result.err


@pytest.fixture
def read_only(tmp_path):
    """A place on a read-only file system, which stops even root."""
    place = tmp_path / "place"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "ro,size=1m", "none", str(place)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("cannot mount a tmpfs here")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def test_no_write_permission(smered_, tmp_path, read_only):
    (tmp_path / "a.csv").write_bytes(GOOD)
    result = smered_("link", "a.csv", "--id", "id", *QUICK, "--out", read_only / "run")
    exported = smered_("init", "a.csv", "--config", read_only / "link.toml")
    assert result.code == exported.code == 2
    assert "cannot write to" in result.err
    assert "read-only" in exported.err


def test_unreadable_databases(smered_, tmp_path):
    (tmp_path / "text.db").write_text("not a database at all, by any means" * 50)
    for scheme in ("sqlite", "duckdb"):
        error = smered_("link", f"{scheme}:text.db?people")
        assert error.code == 2
        assert f"{scheme}:text.db?people: cannot read the database" in error.err
        assert "does not exist" in smered_("link", f"{scheme}:no.db?people").err
        assert not (tmp_path / "no.db").exists()
    assert "names no table; write sqlite:text.db?TABLE" in smered_("link", "sqlite:text.db").err
    with sqlite3.connect(tmp_path / "good.db") as connection:
        connection.execute("CREATE TABLE people (id, name)")
    assert "did you mean 'people'?" in smered_("link", "sqlite:good.db?poeple").err
    error = smered_("link", "postgresql://joe:hunter2@127.0.0.1:9/db?people").err
    assert "postgresql://joe@127.0.0.1:9/db?people: cannot read the database" in error
    assert "hunter2" not in error


def test_figures_where_none_can_be_written(smered_, tmp_path, read_only):
    (tmp_path / "a.csv").write_bytes(b"id,who,name\n" + b"".join(
        b"%d,%d,n%d\n" % (i, i % 20, i % 20) for i in range(40)))  # fmt: skip
    assert smered_("link", "a.csv", "--id", "id", "--truth", "who", *QUICK).code == 0
    result = smered_("evaluate", "linkage", "--figures", read_only / "figures")
    assert (result.code, "read-only" in result.err) == (2, True), result


def test_runs_that_are_none(smered_, tmp_path):
    for command in ("summary", "export", "evaluate", "resume"):
        result = smered_(command, "nowhere")
        assert result.code == 2
        assert "is this a run folder?" in result.err
    assert not (tmp_path / "nowhere").exists()


def test_an_unexpected_error_leaves_its_traceback_in_a_log(smered_, tmp_path, monkeypatch):
    (tmp_path / "a.csv").write_bytes(GOOD)

    def broken(*_, **__):
        raise TypeError("broken at postgresql://joe:hunter2@host/db and password=hunter2")

    monkeypatch.setattr("smered.run.sample", broken)
    result = smered_("link", "a.csv", "--id", "id", *QUICK, "--out", "run")
    assert result.code == 1
    assert "Traceback" not in result.err
    assert "run/smered.log" in result.err
    log = (tmp_path / "run" / "smered.log").read_text()
    assert "Traceback" in log
    assert "hunter2" not in log + result.err
    monkeypatch.undo()
    monkeypatch.chdir(tmp_path)
    again = process("link", "a.csv", "--id", "id", *QUICK, "--out", "run", cwd=tmp_path)
    assert again.code == 0, again.err  # a log alone is no run


def test_an_unexpected_error_without_a_run(smered_, monkeypatch):
    def broken(*_, **__):
        raise TypeError("broken")

    monkeypatch.setattr(sources, "read_sources", broken)
    result = smered_("init", "a.csv")
    assert (result.code, "unexpected error (TypeError: broken)" in result.err) == (1, True)
