"""Fields whose distorted values fall near the true one (equations 15 to 17).

psi(v | y) = phi_v (g + lambda kappa(v, y)) with g = 1 - lambda. The weight of a cluster is that of
a categorical field, with beta g in place of beta, and with rho also for values near the true one:

    prod_r (beta_r g) * [ 1 + sum over y near of phi_y (prod_r rho_ry - 1) ]
    rho_ry = 1 + (lambda kappa(x_r, y) + 1(x_r = y) odds_r / phi_y) / g
"""

from smered.kernels.jit import jit_inline

__all__ = ["near_pair_weight", "near_triple_weight", "place_of", "set_pair_weight", "slip_share"]


@jit_inline
def near_pair_weight(level, other, rate, other_rate, field, layout, parameters):
    """The weight of two values in one field (equation 17)."""
    i, end = layout.near_start[level], layout.near_start[level + 1]
    j, other_end = layout.near_start[other], layout.near_start[other + 1]
    kernel = layout.near_itself[level] if level == other else 0.0
    common = 0.0
    while i < end and j < other_end:
        one, two = layout.near_level[i], layout.near_level[j]
        if one == other:
            kernel = layout.near_kernel[i]
        if one == two:
            common += parameters.theta[one] * layout.near_kernel[i] * layout.near_kernel[j]
        i += one <= two
        j += two <= one
    while i < end:
        if layout.near_level[i] == other:
            kernel = layout.near_kernel[i]
        i += 1
    close = parameters.closeness[field]
    one_distorted = rate * (1.0 - other_rate) + other_rate * (1.0 - rate)
    weight = one_distorted * (1.0 - close + close * kernel)
    weight += rate * other_rate * (1.0 - close * close + close * close * common)
    if level == other:
        weight += (1.0 - rate) * (1.0 - other_rate) * parameters.inverse_theta[level]
    return weight


@jit_inline
def set_pair_weight(level, other, rate, other_rate, field, layout, parameters):
    """The same where levels may stand for sets of values (equation 30).

    Every level stands in its own list, marked as what it may be a copy of.
    """
    i, end = layout.near_start[level], layout.near_start[level + 1]
    j, other_end = layout.near_start[other], layout.near_start[other + 1]
    common, both = 0.0, 0.0  # two slips, two copies
    one_copied, other_copied = 0.0, 0.0  # a copy and a slip
    while i < end and j < other_end:
        one, two = layout.near_level[i], layout.near_level[j]
        if one == two:
            share = parameters.theta[one]
            common += share * layout.near_kernel[i] * layout.near_kernel[j]
            if layout.near_copies[i]:
                one_copied += share * layout.near_kernel[j]
            if layout.near_copies[j]:
                other_copied += share * layout.near_kernel[i]
            if layout.near_copies[i] and layout.near_copies[j]:
                both += share
        i += one <= two
        j += two <= one
    one_copied *= parameters.inverse_theta[level]
    other_copied *= parameters.inverse_theta[other]
    close = parameters.closeness[field]
    weight = (1.0 - rate) * other_rate * (1.0 - close + close * one_copied)
    weight += rate * (1.0 - other_rate) * (1.0 - close + close * other_copied)
    weight += rate * other_rate * (1.0 - close * close + close * close * common)
    both *= parameters.inverse_theta[level] * parameters.inverse_theta[other]
    return weight + (1.0 - rate) * (1.0 - other_rate) * both


@jit_inline
def place_of(true, level, layout):
    """Where a value stands in the list of a level, or -1."""
    low, high = layout.near_start[level], layout.near_start[level + 1] - 1
    while low < high:
        middle = (low + high) // 2
        if layout.near_level[middle] < true:
            low = middle + 1
        else:
            high = middle
    if low < layout.near_start[level + 1] and layout.near_level[low] == true:
        return low
    return -1


@jit_inline
def near_triple_weight(level, other, field, layout, parameters):
    """The weight of a value shown twice and another shown once, rates not by file.

    Sums over true values that are the one, the other, or neither (equation 16).
    """
    i, end = layout.near_start[level], layout.near_start[level + 1]
    j, other_end = layout.near_start[other], layout.near_start[other + 1]
    kernel, common, twice_common = 0.0, 0.0, 0.0
    while i < end and j < other_end:
        one, two = layout.near_level[i], layout.near_level[j]
        if two == level:
            kernel = layout.near_kernel[j]
        if one == two:
            flow = parameters.theta[one] * layout.near_kernel[i] * layout.near_kernel[j]
            common += flow
            twice_common += flow * layout.near_kernel[i]
        i += one <= two
        j += two <= one
    while j < other_end:
        if layout.near_level[j] == level:
            kernel = layout.near_kernel[j]
        j += 1
    close, rate = parameters.closeness[field], parameters.rate[field]
    far, kept = 1.0 - close, 1.0 - rate
    again = far + close * layout.near_itself[level]
    across = far + close * kernel
    weight = kept * kept * parameters.inverse_theta[level] * rate * across
    weight += kept * rate * rate * across * (2.0 * again + across)
    neither = far * far * (far + 3.0 * close)
    neither += far * close * close * (layout.near_twice[level] + 2.0 * common)
    return weight + rate * rate * rate * (neither + close * close * close * twice_common)


@jit_inline
def slip_share(level, true, field, layout, parameters):
    """The probability that a distorted value is a slip, given the true one."""
    kernel = layout.near_itself[level] if level == true else 0.0
    for i in range(layout.near_start[level], layout.near_start[level + 1]):
        if layout.near_level[i] == true:
            kernel = layout.near_kernel[i]
    close = parameters.closeness[field]
    return close * kernel / (1.0 - close + close * kernel)
