"""What can be wrong with a table, in words: where it is, and what to do about it."""

import pyarrow as pa

from smered.errors import DataError

__all__ = ["no_block", "no_file", "no_id", "no_levels", "same_id"]


def no_block(column: str, records: int, file: str, row: int) -> DataError:
    """Say that records have no block."""
    return DataError(
        f"block column {column!r} has no value in {records} record(s), first in file {file!r}, "
        f"row {row}; every record needs a block: fill the value, leave the records out, or block "
        "by another column"
    )


def no_file(column: str, row: int) -> DataError:
    """Say that a row belongs to no file."""
    return DataError(f"file column {column!r} has no value in row {row}; fill it")


def no_id(column: str, file: str, row: int) -> DataError:
    """Say that a record has no id."""
    return DataError(
        f"id column {column!r} of file {file!r} has no value in row {row}; fill it, or "
        "leave --id out to number the rows"
    )


def no_levels(column: str, kind: pa.DataType) -> DataError:
    """Say that a column's values cannot be levels."""
    return DataError(
        f"column {column!r} has type {kind}, which cannot be coded as levels; "
        f"use text, numbers, dates or booleans, or leave the column out with --ignore {column!r}"
    )


def same_id(column: str, file: str, value: str, first: int, second: int) -> DataError:
    """Say that two records have one id."""
    return DataError(
        f"id column {column!r} of file {file!r} has {value} twice, "
        f"in rows {first} and {second}; ids must be unique within a file"
    )
