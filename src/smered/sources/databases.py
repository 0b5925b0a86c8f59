"""Tables of databases, by address: duckdb:PATH?TABLE, sqlite:PATH?TABLE, postgresql://...?TABLE.

Names of tables are quoted, never pasted into SQL as they are; databases are opened for reading
only; a password in an address appears in no message and in no label.
"""

import sqlite3
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote, urlencode

import pyarrow as pa

from smered.errors import DataError
from smered.sources.places import Address, parse_address
from smered.sources.source import Source
from smered.suggest import suggest

__all__ = ["read_database"]

ROWS_AT_ONCE = 100_000
LISTED = 30  # tables named in an error


def read_database(text: str) -> Source:
    """Read a whole table."""
    address = parse_address(text)
    if not address.table:
        raise DataError(f"{address.label} names no table; write {address.label}TABLE")
    try:
        content = DATABASES[address.scheme](address)
    except DataError as error:
        raise DataError(f"{address.label}: {scrub(str(error), address.secrets)}") from None
    except ImportError as error:
        raise DataError(
            f"{address.label}: reading it needs {error.name}; pip install 'smered[databases]'"
        ) from None
    return Source(address.table.rpartition(".")[2], address.label, address.scheme, content)


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
    path = Path(unquote(place))
    if not path.is_file():
        raise DataError("the file does not exist")
    return path


def read_sqlite(address: Address) -> pa.Table:
    """Read a table of an SQLite database with Python's own driver."""
    path = existing(address.place)
    try:
        connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
        try:
            listed = connection.execute(
                "SELECT 'main', name FROM sqlite_master WHERE type IN ('table', 'view')"
            ).fetchall()
            cursor = connection.execute(
                f"SELECT * FROM {identifier(address.table, listed, 'main')}"
            )
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
        with suppress(pa.ArrowException):  # a whole number too long for a float stays as it is
            return pa.array(values, pa.float64())
    if bytes in kinds:
        return pa.array([v if isinstance(v, bytes) else text(v) for v in values], pa.binary())
    return pa.array([text(value) for value in values], pa.string())


def text(value: Any) -> str | None:
    """A value as text; nothing stays nothing."""
    return None if value is None else str(value)


def read_duckdb(address: Address) -> pa.Table:
    """Read a table of a DuckDB database."""
    import duckdb

    path = existing(address.place)
    try:
        with duckdb.connect(str(path), read_only=True) as connection:
            listed = connection.execute(
                "SELECT table_schema, table_name FROM information_schema.tables"
            ).fetchall()
            name = identifier(address.table, listed, "main")
            return connection.sql(f"SELECT * FROM {name}").to_arrow_table()
    except duckdb.Error as error:
        raise DataError(f"cannot read the database: {error}") from None


def read_postgresql(address: Address) -> pa.Table:
    """Read a table of a PostgreSQL database over ADBC."""
    import adbc_driver_postgresql.dbapi as driver

    password = f":{quote(unquote(address.password), safe='')}" if address.password else ""
    user = address.user.replace("@", f"{password}@")
    uri = f"postgresql://{user}{address.place}"
    if address.options:
        uri += f"?{urlencode(address.options)}"
    try:
        with driver.connect(uri) as connection, connection.cursor() as cursor:
            cursor.execute(
                "SELECT table_schema::text, table_name::text FROM information_schema.tables "
                "WHERE table_schema NOT IN ('pg_catalog', 'information_schema')"
            )
            name = identifier(address.table, cursor.fetchall(), "public")
            cursor.execute(f"SELECT * FROM {name}")
            return cursor.fetch_arrow_table()
    except driver.Error as error:
        raise DataError(f"cannot read the database: {error}") from None


DATABASES: dict[str, Callable[[Address], pa.Table]] = {
    "duckdb": read_duckdb,
    "sqlite": read_sqlite,
    "postgresql": read_postgresql,
    "postgres": read_postgresql,
}
