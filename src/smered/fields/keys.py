"""Keys that similar values tend to share, so that candidates survive typos."""

import re
import unicodedata
import zlib
from collections.abc import Callable, Sequence

import numpy as np

from smered.layout import Floats, Int32s
from smered.similar import Neighbours

__all__ = ["digits", "hub_key", "number_keys", "qgram", "sound"]

# letters that are taken for each other, by how they are spoken; vowels, h, w and y are dropped
SOUNDS = str.maketrans(
    {letter: str(number) for number, group in enumerate(
        ("bpvf", "cgjkqsxz", "dt", "l", "mn", "r")) for letter in group}
)  # fmt: skip


def hub_key(found: Neighbours, share: Floats) -> Int32s:
    """The most common value near each value: a typo is keyed by what it was made of."""
    levels = len(share)
    rank = np.empty(levels, np.int64)
    rank[np.lexsort((np.arange(levels), -share))] = np.arange(levels)
    best = rank.copy()
    owner = np.repeat(np.arange(levels), np.diff(found.start))
    np.minimum.at(best, owner, rank[found.level])
    return best.astype(np.int32)


def number_keys(values: Sequence[str], key: Callable[[str], object]) -> Int32s:
    """Number the keys of values as they come."""
    numbers: dict[object, int] = {}
    return np.array([numbers.setdefault(key(value), len(numbers)) for value in values], np.int32)


def sound(value: str) -> str:
    """How a word sounds, roughly: the classes of its consonants, each run of one class once."""
    plain = unicodedata.normalize("NFKD", value.lower())
    spoken = re.sub(r"[^0-9a-z]|[aeiouhwy]", "", plain).translate(SOUNDS)
    return re.sub(r"(.)\1+", r"\1", spoken)


def qgram(value: str) -> int:
    """The smallest hash of a word's pairs of letters: similar words often share it."""
    padded = f" {value.lower()} "
    return min(zlib.crc32(padded[i : i + 2].encode()) for i in range(len(padded) - 1))


def digits(value: str) -> str:
    """The digits of a number or date in order of size: transposed ones agree."""
    return "".join(sorted(value))
