"""Sums of floats that come out the same in any order: by way of whole numbers.

A number is kept as two whole ones, its part above 2**-16 and what is left in units of 2**-48. They
are summed exactly, so that it does not matter which thread or which machine sums what.
"""

from typing import Any

import numpy as np

from smered.layout import LOW_UNITS, UNITS, Floats, Int64s

__all__ = ["add_up", "as_floats"]


def add_up(values: Floats, axis: int = 0) -> Int64s:
    """Sum along an axis, as two whole numbers each (2, ...)."""
    scaled = values * UNITS
    whole = np.floor(scaled)
    rest = np.floor((scaled - whole) * LOW_UNITS)
    return np.stack((whole.astype(np.int64).sum(axis), rest.astype(np.int64).sum(axis)))


def as_floats(parts: Int64s) -> Any:
    """The sums themselves."""
    return (parts[0] + parts[1] / LOW_UNITS) / UNITS
