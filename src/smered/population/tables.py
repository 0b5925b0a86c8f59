"""Overlap tables: how many entities each set of files holds, as arrays over sets.

A set of files is a number whose bits are the files: with two files, 1 is the first alone, 2 the
second alone, 3 both, and 0 neither, which nobody sees.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations

import numpy as np

from smered.errors import ConfigError, DataError
from smered.layout import Int64s
from smered.suggest import suggest

__all__ = ["choose_files", "name_terms", "overlap_array", "overlap_table", "sizes"]


def sizes(files: int) -> Int64s:
    """How many files each set has (2^k,)."""
    return np.array([cell.bit_count() for cell in range(1 << files)])


def overlap_array(kinds: Sequence[tuple[str, ...]], counts: Int64s, files: Sequence[str]) -> Int64s:
    """Counts (kinds, ...) by pattern of files as an array over sets of the given files (..., 2^k).

    Entities that only other files hold count as unseen, which is nothing here.
    """
    found = np.zeros((1 << len(files), *counts.shape[1:]), np.int64)
    for pattern, count in zip(kinds, counts, strict=True):
        found[sum(1 << i for i, file in enumerate(files) if file in pattern)] += count
    found[0] = 0
    return np.moveaxis(found, 0, -1)


def overlap_table(counts: Mapping[Iterable[str], int]) -> tuple[tuple[str, ...], Int64s]:
    """A table of counts by set of files, such as {("a",): 5, ("a", "b"): 2}; files in order.

    >>> overlap_table({("a",): 5, ("b",): 3, ("a", "b"): 2})[1].tolist()
    [0, 5, 3, 2]
    """
    patterns = [(key,) if isinstance(key, str) else tuple(key) for key in counts]
    files = tuple(dict.fromkeys(file for pattern in patterns for file in pattern))
    values = np.array(list(counts.values()))
    if len(values) and not (np.equal(values, np.round(values)).all() and values.min() >= 0):
        raise DataError("counts of entities must be whole numbers, 0 or more")
    return files, overlap_array(patterns, values.astype(np.int64), files)


def choose_files(chosen: Sequence[str] | None, files: Sequence[str]) -> tuple[str, ...]:
    """Two or more of the files."""
    found = tuple(files) if chosen is None else tuple(dict.fromkeys(chosen))
    for file in found:
        if file not in files:
            raise ConfigError(f"no file {file!r}; {suggest(file, files)}")
    if len(found) < 2:
        raise ConfigError(
            "the size of a population needs the overlap of two or more files; "
            + ("the run has one" if len(files) == 1 else "choose at least two")
        )
    return found


def name_terms(terms: Iterable[int], files: Sequence[str]) -> str:
    """The largest sets among terms, such as "a*b + c": what a model is called."""
    given = set(terms)
    tops = [t for t in given if t and not any(t != u and t & u == t for u in given)]
    sets = [[i for i in range(len(files)) if t >> i & 1] for t in tops]
    return " + ".join("*".join(files[i] for i in each) for each in sorted(sets))


def pairs_of(files: int) -> list[int]:
    """All sets of two files."""
    return [1 << a | 1 << b for a, b in combinations(range(files), 2)]
