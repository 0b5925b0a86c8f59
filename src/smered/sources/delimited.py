"""CSV and its relatives: any common delimiter and encoding, found out and reported.

Every value is read as text, exactly as it stands; an empty one is missing.
"""

import codecs
import csv
import io
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pa_csv

from smered.errors import DataError
from smered.sources.source import Source, file_name

__all__ = ["read_delimited"]

DELIMITERS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "bar"}
MARKS = {  # byte order marks, the longer first
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
SPELT = {"tab": "\t", "\\t": "\t"}
COMPRESSED = {".gz", ".bz2", ".zst", ".lz4"}
LATIN = {  # the letters that names in each encoding use; on a tie the first wins
    "cp1252": set("äöüßéèêëàâáãåæçñóòôõøíìîïúùûœÿÄÖÜÉÈÊËÀÂÁÃÅÆÇÑÓÒÔÕØÍÌÎÏÚÙÛŒŸ"),
    "cp1250": set("ąćęłńóśźżáčďéěíňřšťúůýžőűäöüßăâîşţđĄĆĘŁŃÓŚŹŻÁČĎÉĚÍŇŘŠŤÚŮÝŽŐŰÄÖÜĂÂÎŞŢĐ"),
    "cp1254": set("çğıöşüâîûÇĞİÖŞÜ"),
}
LATIN_RUN = 2.5  # bytes beyond ASCII in a row, on average: fewer in Latin text
OTHER_SCRIPTS = ["cp1251", "cp1253", "cp1255", "cp1256", "cp932", "gb18030", "big5", "cp949"]
OTHER_SCRIPTS += ["koi8_r", "euc_jp"]
MIXED = 0.1  # of the lines with accents: that more of them can be UTF-8 is no chance
SAMPLE = 1 << 18  # bytes that show encoding and delimiter
SAMPLE_ROWS = 200
BLOCK = 1 << 24  # bytes parsed at once: no row may be longer


def read_delimited(path: Path, *, encoding: str | None, delimiter: str | None) -> Source:
    """Read a text table whose first row names the columns."""
    delimiter = SPELT.get(delimiter or "", delimiter)
    if delimiter is not None and not (len(delimiter) == 1 and delimiter.isascii()):
        raise DataError(f"delimiter {delimiter!r} must be one plain character, or tab")
    encoding = checked_encoding(encoding)
    try:
        with open_bytes(path) as file:
            sample = file.read(SAMPLE)
    except OSError as error:
        raise DataError(f"cannot decompress {path}: {error}; write it again") from None
    whole = len(sample) < SAMPLE
    encoding = encoding or find_encoding(path, sample, whole)
    try:
        return parse(path, sample, whole, encoding, delimiter)
    except UnicodeDecodeError:
        raise wrong_encoding(path, encoding) from None
    except pa.ArrowInvalid as error:
        if "UTF" not in str(error):
            raise DataError(f"{path}: {error}") from None
    # UTF-8 at its start, but not further on
    if encoding not in ("utf-8", "utf-8-sig"):
        raise wrong_encoding(path, encoding)
    lines = b"".join(broken_lines(path))
    return parse(path, sample, whole, find_encoding(path, lines, whole=True), delimiter)


def open_bytes(path: Path) -> pa.NativeFile:
    """The content of a file, decompressed if its ending says so."""
    try:
        kind = "detect" if path.suffix in COMPRESSED else None
        return pa.input_stream(str(path), compression=kind)
    except OSError as error:
        raise DataError(f"cannot read {path}: {error}") from None


def checked_encoding(encoding: str | None) -> str | None:
    """The name of an encoding that Python knows."""
    if encoding is None:
        return None
    try:
        "a".encode(encoding)
        name = codecs.lookup(encoding).name
    except (LookupError, ValueError):
        raise DataError(f"encoding {encoding!r} is unknown; try utf-8 or cp1252") from None
    return "utf-8-sig" if name == "utf-8" else name  # with or without a byte order mark


def find_encoding(path: Path, sample: bytes, whole: bool) -> str:
    """The encoding of a text, by its mark, by being UTF-8, or by looking at its letters."""
    for mark, name in MARKS.items():
        if sample.startswith(mark):
            return name
    if b"\0" in sample:
        hint = "; a CSV file in UTF-16 wants --encoding utf-16-le" if b"\0,\0" in sample else ""
        raise DataError(
            f"{path} is a binary file; give CSV, Parquet, Arrow or a database table{hint}"
        )
    try:
        codecs.getincrementaldecoder("utf-8")().decode(sample, final=whole)
    except UnicodeDecodeError:
        check_one_encoding(path)
        return guess_encoding(sample)
    return "utf-8"


def check_one_encoding(path: Path) -> None:
    """Refuse a text of which some lines with accents are UTF-8 and others are not.

    A few lines in another encoding may look like UTF-8 by chance.
    """
    with open_bytes(path) as file:
        lines = file.read().split(b"\n")
    utf_8: list[int] = []
    others: list[int] = []
    for number, line in enumerate(lines, 1):
        if not line.isascii():
            (utf_8 if is_utf_8(line) else others).append(number)
    if others and len(utf_8) > MIXED * (len(utf_8) + len(others)):
        raise DataError(
            f"{path} mixes encodings: line {utf_8[0]} is UTF-8, line {others[0]} is not; save it "
            "in one, or name one with --encoding to have letters of the other come out wrong"
        )


def is_utf_8(line: bytes) -> bool:
    """Whether a line can be UTF-8."""
    try:
        line.decode()
    except UnicodeDecodeError:
        return False
    return True


def guess_encoding(sample: bytes) -> str:
    """The most plausible encoding of text that is not UTF-8."""
    from charset_normalizer import from_bytes

    telling = b"\n".join(line for line in sample.splitlines() if not line.isascii())
    runs = re.findall(rb"[\x80-\xff]+", telling)
    if len(b"".join(runs)) < LATIN_RUN * len(runs):  # single accented letters among plain ones
        letters = b"".join(runs)
        return max(
            LATIN, key=lambda name: sum(c in LATIN[name] for c in letters.decode(name, "replace"))
        )
    best = from_bytes(telling[:20_000], cp_isolation=OTHER_SCRIPTS).best()
    return "cp1252" if best is None else best.encoding


def broken_lines(path: Path) -> Iterator[bytes]:
    """Lines of a file that are not UTF-8."""
    with open_bytes(path) as file:
        for line in file.read().split(b"\n"):
            if not is_utf_8(line):
                yield line + b"\n"


def wrong_encoding(path: Path, encoding: str) -> DataError:
    """Say where a file is not in the encoding it was said to have."""
    with open_bytes(path) as file:
        content = file.read()
    try:
        content.decode(encoding)
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        return DataError(
            f"{path}: line {line} is not {encoding.removesuffix('-sig')} "
            f"(byte 0x{content[error.start]:02x}); "
            "name the right encoding with --encoding, such as cp1252"
        )
    return DataError(f"{path} cannot be read as {encoding}; name its encoding with --encoding")


def parse(path: Path, sample: bytes, whole: bool, encoding: str, delimiter: str | None) -> Source:
    """Read a table whose encoding is known."""
    text = codecs.getincrementaldecoder(encoding)().decode(sample, final=whole)
    lines = list(io.StringIO(text, newline=""))
    lines = lines if whole or len(lines) == 1 else lines[:-1]
    csv.field_size_limit(BLOCK)
    chosen = delimiter or find_delimiter(lines)
    reader = csv.reader(lines, delimiter=chosen)
    rows = (row for row in reader if row)
    names = check_header(path, next(rows, []))
    above = reader.line_num
    if whole and next(rows, None) is None:
        raise DataError(f"{path} has a header but no rows; leave it out or fill it")
    table = parse_table(path, names, above, encoding, chosen)
    notes = []
    unnamed = [name for name in names if name.startswith("\0")]
    if unnamed:
        table = table.drop_columns(unnamed)
        notes.append(f"{len(unnamed)} column(s) without a name left out")
    if encoding not in ("utf-8", "utf-8-sig"):
        notes.append(f"read as {encoding}; if letters look wrong, give --encoding")
    how = f"CSV, {encoding.removesuffix('-sig')}, {DELIMITERS.get(chosen, repr(chosen))}"
    return Source(file_name(path), str(path), how, table, tuple(notes))


def find_delimiter(lines: list[str]) -> str:
    """The delimiter that cuts most rows into as many values as the header, more than one."""

    def score(delimiter: str) -> tuple[float, int]:
        rows = csv.reader(lines, delimiter=delimiter)
        widths = [len(row) for _, row in zip(range(SAMPLE_ROWS), rows, strict=False) if row]
        if not widths or widths[0] < 2:
            return 0.0, 0
        return Counter(widths)[widths[0]] / len(widths), widths[0]

    try:
        return max(DELIMITERS, key=score)
    except csv.Error:
        return ","


def check_header(path: Path, header: list[str]) -> list[str]:
    """Names of the columns, each once; a column without one gets a name that no file can have."""
    names = [name.strip() for name in header]
    if not any(names):
        raise DataError(f"{path} has no header; its first row must name the columns")
    for name in names:
        if name and names.count(name) > 1:
            places = [str(i + 1) for i, other in enumerate(names) if other == name]
            raise DataError(
                f"{path} has a column {name!r} more than once, at positions "
                f"{', '.join(places)}; rename all but one"
            )
    return [name or f"\0{i}" for i, name in enumerate(names)]


def parse_table(
    path: Path, names: list[str], above: int, encoding: str, delimiter: str
) -> pa.Table:
    """Read all rows below the first lines as text.

    A row of another length than the header is an error that names it.
    """
    ragged: list[pa_csv.InvalidRow] = []

    def note(row: pa_csv.InvalidRow) -> str:
        ragged.append(row)
        return "error"

    def read(one_by_one: bool) -> pa.Table:
        with open_bytes(path) as file:
            return pa_csv.read_csv(
                file,
                pa_csv.ReadOptions(
                    column_names=names,
                    skip_rows=above,
                    encoding="utf-8" if encoding == "utf-8-sig" else encoding,
                    block_size=BLOCK,
                    use_threads=not one_by_one,
                ),
                pa_csv.ParseOptions(
                    delimiter=delimiter,
                    newlines_in_values=True,
                    ignore_empty_lines=len(names) > 1,  # else an empty line is an empty value
                    invalid_row_handler=note,
                ),
                pa_csv.ConvertOptions(
                    column_types=dict.fromkeys(names, pa.string()),
                    null_values=[""],
                    strings_can_be_null=True,
                ),
            )

    try:
        table = read(one_by_one=False)
    except pa.ArrowInvalid:
        if not ragged:
            raise
        ragged.clear()  # only rows read one by one are numbered
        try:
            return read(one_by_one=True)
        except pa.ArrowInvalid:
            if "\n" in ragged[0].text:
                check_quotes(path, encoding, delimiter)
            raise ragged_row(path, ragged[0], above, delimiter) from None
    last = table.slice(len(table) - 1).to_pylist() if len(table) else [{}]
    if any("\n" in (value or "") for value in last[0].values()):
        check_quotes(path, encoding, delimiter)
    return table


def check_quotes(path: Path, encoding: str, delimiter: str) -> None:
    """Refuse a file whose last value is a quotation without an end: it would swallow rows."""
    with open_bytes(path) as file:
        text = io.TextIOWrapper(file, encoding, newline="")
        rows = csv.reader(text, delimiter=delimiter, strict=True)
        began = 0
        try:
            for _ in rows:
                began = rows.line_num
        except csv.Error:
            raise DataError(
                f"{path}: line {began + 1} opens a quotation mark that is never closed; close it, "
                "or double quotation marks that belong to a value"
            ) from None


def ragged_row(path: Path, row: pa_csv.InvalidRow, above: int, delimiter: str) -> DataError:
    """Name a row that has too few or too many values."""
    start = row.text if len(row.text) <= 60 else row.text[:57] + "..."
    values = "1 value" if row.actual_columns == 1 else f"{row.actual_columns} values"
    return DataError(
        f"{path}: row {row.number - above} has {values} where the header has "
        f"{row.expected_columns} columns ({start!r}); quote values that hold a "
        f"{DELIMITERS.get(delimiter, repr(delimiter))}, or say the delimiter with --delimiter"
    )
