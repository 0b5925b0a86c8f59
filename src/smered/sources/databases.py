"""Tables of databases, by address: duckdb:PATH?TABLE, sqlite:PATH?TABLE, postgresql://...?TABLE.

Names of tables are quoted, never pasted into SQL as they are; databases are opened for reading
only; a password in an address appears in no message and in no label.
"""

import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

import pyarrow as pa

from smered.errors import DataError
from smered.records import suggest
from smered.sources.source import Source

__all__ = ["DATABASES", "read_database"]

ROWS_AT_ONCE = 100_000
LISTED = 30  # tables named in an error
PASSWORDS = ("password", "sslpassword", "passfile")


def read_database(address: str) -> Source:
    """Read a whole table."""
    scheme, _, rest = address.partition(":")
    place, _, query = rest.partition("?")
    table = table_name(query)
    label = f"{scheme}:{shown(place)}?{table}"
    if not table:
        raise DataError(f"{label} names no table; write {scheme}:{shown(place)}?TABLE")
    hidden = secrets(place, query)
    try:
        content = DATABASES[scheme.lower()](place, query, table)
    except DataError as error:
        raise DataError(f"{label}: {scrub(str(error), hidden)}") from None
    except ImportError as error:
        raise DataError(
            f"{label}: reading it needs {error.name}; pip install 'smered[databases]'"
        ) from None
    return Source(table.rpartition(".")[2], label, scheme, without_extensions(content))


def table_name(query: str) -> str:
    """The table that the part after the question mark names, as TABLE or table=TABLE."""
    for part in query.split("&"):
        key, equals, value = part.partition("=")
        if not equals and key:
            return unquote(key)
        if key == "table":
            return unquote(value)
    return ""


def shown(place: str) -> str:
    """A place without the password."""
    parts = urlsplit(place)
    user, at, host = parts.netloc.rpartition("@")
    return parts._replace(netloc=f"{user.partition(':')[0]}{at}{host}").geturl()


def secrets(place: str, query: str) -> list[str]:
    """Everything in an address that no message may show."""
    password = urlsplit(place).netloc.rpartition("@")[0].partition(":")[2]
    found = [password, unquote(password)]
    found += [value for key, value in parse_qsl(query) if key in PASSWORDS]
    return [text for text in found if text]


def scrub(message: str, hidden: Sequence[str]) -> str:
    """A driver's message on one line, without what must not be shown."""
    for text in hidden:
        message = message.replace(text, "***")
    return " ".join(message.split())


def identifier(table: str, listed: Sequence[tuple[str, str]], default: str) -> str:
    """A table as a quoted SQL identifier.

    `listed` are schemas and names of the tables there are; only tables of the default schema may
    be named without it.
    """
    tables = {name: (schema, name) for schema, name in listed if schema == default}
    tables = {f"{schema}.{name}": (schema, name) for schema, name in listed} | tables
    if not tables:
        raise DataError("the database has no tables")
    if table not in tables:
        raise DataError(f"no table {table!r}; {suggest(table, sorted(tables)[:LISTED])}")
    return ".".join('"' + part.replace('"', '""') + '"' for part in tables[table])


def existing(place: str) -> Path:
    """The file of a database, which must exist: drivers would create it."""
    path = Path(unquote(place).removeprefix("//"))
    if not path.is_file():
        raise DataError("the file does not exist")
    return path


def read_sqlite(place: str, query: str, table: str) -> pa.Table:
    """Read a table of an SQLite database with Python's own driver."""
    path = existing(place)
    try:
        connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
        try:
            listed = connection.execute(
                "SELECT 'main', name FROM sqlite_master WHERE type IN ('table', 'view')"
            ).fetchall()
            cursor = connection.execute(f"SELECT * FROM {identifier(table, listed, 'main')}")
            names = [column[0] for column in cursor.description]
            columns: list[list[Any]] = [[] for _ in names]
            while rows := cursor.fetchmany(ROWS_AT_ONCE):
                for column, values in zip(columns, zip(*rows, strict=True), strict=True):
                    column.extend(values)
        finally:
            connection.close()
    except sqlite3.Error as error:
        raise DataError(f"cannot read the database: {error}") from None
    return pa.Table.from_arrays([typed(column) for column in columns], names)


def typed(values: list[Any]) -> pa.Array:
    """A column of SQLite, whose values may each have a type of their own."""
    kinds = {type(value) for value in values} - {type(None)}
    if kinds <= {int}:
        return pa.array(values, pa.int64())
    if kinds <= {int, float}:
        return pa.array(values, pa.float64())
    if bytes in kinds:
        return pa.array([v if isinstance(v, bytes) else text(v) for v in values], pa.binary())
    return pa.array([text(value) for value in values], pa.string())


def text(value: Any) -> str | None:
    """A value as text; nothing stays nothing."""
    return None if value is None else str(value)


def read_duckdb(place: str, query: str, table: str) -> pa.Table:
    """Read a table of a DuckDB database."""
    import duckdb

    path = existing(place)
    try:
        with duckdb.connect(str(path), read_only=True) as connection:
            listed = connection.execute(
                "SELECT table_schema, table_name FROM information_schema.tables"
            ).fetchall()
            name = identifier(table, listed, "main")
            return connection.sql(f"SELECT * FROM {name}").to_arrow_table()
    except duckdb.Error as error:
        raise DataError(f"cannot read the database: {error}") from None


def read_postgresql(place: str, query: str, table: str) -> pa.Table:
    """Read a table of a PostgreSQL database over ADBC."""
    import adbc_driver_postgresql.dbapi as driver

    options = [(key, value) for key, value in parse_qsl(query) if key != "table"]
    uri = f"postgresql:{place}" + (f"?{urlencode(options)}" if options else "")
    try:
        with driver.connect(uri) as connection, connection.cursor() as cursor:
            cursor.execute(
                "SELECT table_schema::text, table_name::text FROM information_schema.tables "
                "WHERE table_schema NOT IN ('pg_catalog', 'information_schema')"
            )
            name = identifier(table, cursor.fetchall(), "public")
            cursor.execute(f"SELECT * FROM {name}")
            return cursor.fetch_arrow_table()
    except driver.Error as error:
        raise DataError(f"cannot read the database: {error}") from None


def without_extensions(table: pa.Table) -> pa.Table:
    """Types that a database made up, such as PostgreSQL's numeric, as what they are stored as."""
    for i, field in enumerate(table.schema):
        if isinstance(field.type, pa.BaseExtensionType):
            column = table.column(i).cast(field.type.storage_type)
            table = table.set_column(i, field.name, column)
    return table


DATABASES: dict[str, Callable[[str, str, str], pa.Table]] = {
    "duckdb": read_duckdb,
    "sqlite": read_sqlite,
    "postgresql": read_postgresql,
    "postgres": read_postgresql,
}
