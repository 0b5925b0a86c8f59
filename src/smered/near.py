"""How distorted values fall near the true one (section 7 of docs/mathematics.md).

A distorted value is drawn from psi(v | y) = phi_v c_v c_y e(v, y): phi the share of records that
show v; e(v, y) = exp(s(v, y)) for similar values, 1 for all others, and 0 for v = y unless a
distorted value may equal the true one; c balances it, so that psi sums to 1 over v. As e is
symmetric, phi is then what psi leaves as it is: a lone value x has probability phi_x whatever the
distortion rate, as in a categorical field.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from smered.layout import MOST_FAR, Floats, Int32s, Int64s
from smered.similar import Neighbours

__all__ = ["NearTables", "near_tables"]

LARGEST_SHARE = 0.25  # a value more common than this may always be its own distortion
BALANCED, MOST_ROUNDS = 1e-13, 5000


class NearTables(NamedTuple):
    """One field's values and what lies near them, each value near itself."""

    start: Int64s  # (levels + 1,)
    level: Int32s  # in order within each value's list
    excess: Floats  # e(v, y) - 1
    balance: Floats  # (levels,) c
    alone: Floats  # (levels,) c_x**2 e(x, x): how likely a value is distorted to itself, over phi
    second: Floats  # (levels,) sum over near y of phi_y c_y**2 (e(x, y) - 1)
    twice: Floats  # (levels,) sum over y of phi_y (c_x c_y e(x, y))**2
    log_far: Floats  # (MOST_FAR + 1,) log of sum over all y of phi_y c_y**s


def near_tables(
    found: Neighbours, share: Floats, threshold: float, scale: float, may_equal: bool
) -> NearTables:
    """Tables of a field from its similar values and the share of records that show each value.

    s(v, y) rises from 0 at the threshold to `scale` at equality.
    """
    levels = len(share)
    counts = np.diff(found.start)
    steps = (found.similarity - threshold) / (1.0 - threshold)
    owner = np.concatenate((np.repeat(np.arange(levels), counts), np.arange(levels)))
    level = np.concatenate((found.level.astype(np.int64), np.arange(levels)))
    own = np.where((share > LARGEST_SHARE) | may_equal, 0.0, -1.0)
    excess = np.concatenate((np.expm1(scale * np.clip(steps, 0.0, 1.0)), own))
    order = np.lexsort((level, owner))
    level, excess = level[order].astype(np.int32), excess[order]
    start = found.start + np.arange(levels + 1)
    balance = find_balance(start, level, excess, share)

    def over_near(terms: Floats) -> Floats:
        return np.add.reduceat(terms, start[:-1])

    weight = share * balance**2
    squared = float(weight.sum())
    second = over_near(weight[level] * excess)
    both = over_near(weight[level] * excess**2)
    return NearTables(
        start=start,
        level=level,
        excess=excess,
        balance=balance,
        alone=balance**2 * (1.0 + own),
        second=second,
        twice=balance**2 * (squared + 2.0 * second + both),
        log_far=log_powers(share, balance),
    )


def find_balance(
    start: Int64s, level: Int32s, excess: Floats, share: Floats
) -> NDArray[np.float64]:
    """The c for which phi_v c_v c_y e(v, y) sums to 1 over v, for every y (Sinkhorn's scaling)."""
    balance = np.ones(len(share))
    for _ in range(MOST_ROUNDS):
        weight = share * balance
        total = weight.sum() + np.add.reduceat(weight[level] * excess, start[:-1])
        if np.abs(balance * total - 1.0).max() < BALANCED:
            break
        balance = np.sqrt(balance / total)
    return balance


def log_powers(share: Floats, balance: Floats) -> Floats:
    """Log of the sum of phi c**s for every s up to MOST_FAR."""
    found = np.empty(MOST_FAR + 1)
    largest = float(np.log(balance).max())
    power, step = share.copy(), np.exp(np.log(balance) - largest)
    for s in range(MOST_FAR + 1):
        found[s] = np.log(power.sum()) + s * largest
        power *= step
    return found
