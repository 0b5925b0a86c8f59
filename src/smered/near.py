"""How distorted values fall near the true one (section 6 of docs/mathematics.md).

A distorted value is a slip with probability lambda, the field's closeness, or else any value:

    psi(v | y) = phi_v (1 - lambda + lambda kappa(v, y)),   phi_v the share of records that show v.

kappa is symmetric, nothing but between similar values, and phi_v kappa(v, y) sums to 1 over v. Then
phi is what psi leaves as it is: a lone value x has probability phi_x whatever the distortion rate,
as in a categorical field. Among the values that records show, similar ones seldom suffice for that
sum. What is missing goes to a value's twin, which stands for all misspellings of it that no record
shows; a twin is similar to its value alone.
"""

from typing import NamedTuple

import numpy as np

from smered.layout import Bools, Floats, Int32s, Int64s
from smered.similar import Neighbours

__all__ = ["NearTables", "Partial", "near_tables"]

LEAST_SHARE = 1e-300  # of a twin that nothing is missing for


class Partial(NamedTuple):
    """The values that each value of which a part is missing may be: a set of them (section 6)."""

    start: Int64s  # (sets + 1,)
    value: Int32s


class NearTables(NamedTuple):
    """One field's values, followed by their twins, and what lies near the values."""

    share: Floats  # (levels,) phi
    start: Int64s  # (levels + 1,) lists of neighbours; twins, which no record shows, have none
    level: Int32s  # in order within each list
    kernel: Floats  # kappa of each neighbour
    itself: Floats  # (levels,) kappa(x, x)
    twice: Floats  # (levels,) sum over y of phi_y kappa(x, y)**2
    thrice: Floats  # (levels,) the same of kappa**3
    copies: Bools  # of each neighbour: whether a record that shows the level may be a true copy
    marginal: Floats  # (levels,) probability that a lone record shows the level


def near_tables(
    found: Neighbours, share: Floats, threshold: float, scale: float, may_equal: bool,
    partial: Partial | None = None,
) -> NearTables:  # fmt: skip
    """Tables of a field from its similar values and the share of records that show each value.

    kappa(v, y) is exp(s(v, y)) over the larger of the sums of phi exp(s) over the neighbours of v
    and of y; s rises from 0 at the threshold to `scale` at equality. If a slip `may_equal` the true
    value, what is missing goes to the value itself, and there are no twins.
    """
    values = len(share)
    counts = np.diff(found.start)
    owner = np.repeat(np.arange(values), counts)
    weight = np.exp(scale * np.clip((found.similarity - threshold) / (1 - threshold), 0, 1))
    reach = np.bincount(owner, share[found.level] * weight, minlength=values)
    kernel = weight / np.maximum(reach[owner], reach[found.level])
    taken = np.bincount(owner, share[found.level] * kernel, minlength=values)
    missing = np.clip(1.0 - taken, 0.0, 1.0)
    if not len(kernel):
        missing[:] = 0.0  # nothing is similar: distorted values are any values
    level = found.level.astype(np.int64)
    own = np.arange(values)
    if may_equal:
        others, beside = own, missing / share
    else:
        share = np.concatenate((share, share * missing))
        others, beside = own + values, 1.0 / share[:values]
    whole = share.sum()
    share, kernel, beside = share / whole, kernel * whole, beside * whole
    owner = np.concatenate((owner, own))
    level = np.concatenate((level, others))
    kernel = np.concatenate((kernel, beside))
    order = np.lexsort((level, owner))
    lists = np.concatenate((counts + 1, np.zeros(len(share) - values, np.int64)))
    near = level[order].astype(np.int32)
    kernel = kernel[order]
    copies = np.zeros(len(near), np.bool_)
    if partial is not None:
        near, kernel, copies, lists, share, marginal = with_partial(
            near, kernel, lists, share, itself_of(beside, share, may_equal), partial
        )
    else:
        marginal = np.maximum(share, LEAST_SHARE)
    flow: Floats = share[near] * kernel**2
    itself = np.zeros(len(share))
    if may_equal:
        itself[:values] = beside
    owner = np.repeat(np.arange(len(share)), lists)
    return NearTables(
        share=np.maximum(share, LEAST_SHARE),
        start=np.concatenate(([0], np.cumsum(lists))),
        level=near,
        kernel=kernel,
        itself=itself,
        twice=np.bincount(owner, flow, minlength=len(share)).astype(np.float64),
        thrice=np.bincount(owner, flow * kernel, minlength=len(share)).astype(np.float64),
        copies=copies,
        marginal=marginal,
    )


def with_partial(
    near: Int32s, kernel: Floats, lists: Int64s, share: Floats, itself: Floats, partial: Partial
) -> tuple[Int32s, Floats, Bools, Int64s, Floats, Floats]:
    """The tables with levels that show a part of a value, after all others (equation 30).

    Every level then stands in its own list, as what it may be a copy of. A part is shown by a slip
    as often as any of its values is: kappa_S(y) = sum over v in S of phi_v kappa(v, y) / phi_S.
    """
    levels, sets = len(share), len(partial.start) - 1
    owner = np.repeat(np.arange(levels), lists)
    own = np.arange(levels)
    others = near != owner
    one = np.concatenate((owner[others], own))
    two = np.concatenate((near[others].astype(np.int64), own))
    strength = np.concatenate((kernel[others], itself))
    copy = np.concatenate((np.zeros(int(others.sum()), np.bool_), np.ones(levels, np.bool_)))
    order = np.lexsort((two, one))
    one, two, strength, copy = one[order], two[order], strength[order], copy[order]
    start = np.searchsorted(one, np.arange(levels + 1))

    number = np.repeat(np.arange(sets), np.diff(partial.start))
    value = partial.value.astype(np.int64)
    whole = np.bincount(number, share[value], minlength=sets)
    counts = np.diff(start)[value]
    entry = np.repeat(start[value] - np.cumsum(counts) + counts, counts) + np.arange(counts.sum())
    at = np.repeat(number, counts) * levels + two[entry]
    weight = np.repeat(share[value], counts) * strength[entry]
    key, place = np.unique(at, return_inverse=True)
    of, true = key // levels, key % levels
    part = np.bincount(place, weight) / np.maximum(whole[of], LEAST_SHARE)
    copied = np.bincount(place, copy[entry]) > 0
    none = np.full(sets, LEAST_SHARE)
    return (
        np.concatenate((two, true)).astype(np.int32),
        np.concatenate((strength, part)),
        np.concatenate((copy, copied)),
        np.concatenate((np.diff(start), np.bincount(of, minlength=sets))),
        np.concatenate((share, none)),
        np.concatenate((np.maximum(share, LEAST_SHARE), np.maximum(whole, LEAST_SHARE))),
    )


def itself_of(beside: Floats, share: Floats, may_equal: bool) -> Floats:
    """Kappa of every level and itself."""
    found = np.zeros(len(share))
    if may_equal:
        found[: len(beside)] = beside
    return found
