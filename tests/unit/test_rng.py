import numpy as np
import pytest

from smered.kernels import rng
from tests.kernels import from_python

below, stream, uniform, words = map(from_python, (rng.below, rng.stream, rng.uniform, rng.words))

pytestmark = pytest.mark.plain


def halves(pair):
    return [int(word) >> shift & 0xFFFFFFFF for word in pair for shift in (0, 32)]


def test_known_answers_of_philox_4x32_10():
    zero = (np.uint64(0),) * 5
    assert halves(words(zero, 0)) == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]
    ones = (np.uint64(0xFFFFFFFF),) * 5
    assert halves(words(ones, 0xFFFFFFFF)) == [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]
    key = (np.uint64(0xA4093822), np.uint64(0x299F31D0))
    counter = (np.uint64(0x85A308D3), np.uint64(0x13198A2E), np.uint64(0x03707344))
    expected = [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1]
    assert halves(words(key + counter, 0x243F6A88)) == expected


def test_streams_differ_in_every_part_of_their_name():
    names = [(5, 0, 0, 0, 0), (6, 0, 0, 0, 0), (5, 1, 0, 0, 0), (5, 0, 1, 0, 0), (5, 0, 0, 1, 0),
             (5, 0, 0, 0, 1), (2**40 + 5, 0, 0, 0, 0)]  # fmt: skip
    # compiled functions hand plain integers back to Python
    streams = [tuple(np.uint64(part) for part in stream(*name)) for name in names]
    first = {tuple(map(int, words(one, 0))) for one in streams}
    assert len(first) == len(names)


def test_uniform_stays_below_one():
    assert uniform(np.uint64(2**64 - 1)) < 1.0
    assert uniform(np.uint64(0)) == 0.0


def test_below_covers_its_range():
    assert below(np.uint64(0), 7) == 0
    assert below(np.uint64(2**32 - 1), 7) == 6
