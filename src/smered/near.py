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

from smered.layout import Floats, Int32s, Int64s
from smered.similar import Neighbours

__all__ = ["NearTables", "near_tables"]

LEAST_SHARE = 1e-300  # of a twin that nothing is missing for


class NearTables(NamedTuple):
    """One field's values, followed by their twins, and what lies near the values."""

    share: Floats  # (levels,) phi
    start: Int64s  # (levels + 1,) lists of neighbours; twins, which no record shows, have none
    level: Int32s  # in order within each list
    kernel: Floats  # kappa of each neighbour
    itself: Floats  # (levels,) kappa(x, x)
    twice: Floats  # (levels,) sum over y of phi_y kappa(x, y)**2
    thrice: Floats  # (levels,) the same of kappa**3


def near_tables(
    found: Neighbours, share: Floats, threshold: float, scale: float, may_equal: bool
) -> NearTables:
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
    flow: Floats = share[near] * kernel**2
    itself = beside if may_equal else np.zeros(len(share))
    return NearTables(
        share=np.maximum(share, LEAST_SHARE),
        start=np.concatenate(([0], np.cumsum(lists))),
        level=near,
        kernel=kernel,
        itself=itself,
        twice=np.bincount(owner[order], flow, minlength=len(share)).astype(np.float64),
        thrice=np.bincount(owner[order], flow * kernel, minlength=len(share)).astype(np.float64),
    )
