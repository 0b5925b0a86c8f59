"""A distortion rate drawn jointly with the links that depend on it (equation 13).

A low rate forbids links between records that differ in the field, and few such links keep the rate
low: drawn in turn, the two hold each other fast. Here toggles, links that may be set independently
of each other, are summed out while the rate is drawn, and drawn after it.
"""

import numpy as np
from numpy.typing import NDArray

from smered.execute.serial import Serial
from smered.layout import Floats, Layout, Toggles
from smered.model import Model
from smered.state import ChainState, tabulate_state

__all__ = ["draw_jointly", "find_doubtful"]

LEAST_DOUBT = 8  # the grade of candidates that may be toggles: odds of a thousand to one
WORTHWHILE = 0.25  # of the doubt in the most doubtful field: what makes a field worth the time
RATES, STEP = 12, 0.15  # rates that a draw chooses from, and the step between their logarithms


def find_doubtful(
    model: Model, layout: Layout, worthwhile: float = WORTHWHILE
) -> dict[int, Toggles]:
    """The doubtful candidates that differ in a field, for the fields where these are many.

    Each pair once: the record that moves is the one with fewer candidates equal to it in all
    fields. There are none if rates differ by file or there are latent
    classes, nor in near fields.
    """
    if model.rate_rows > 1 or model.classes > 1:
        return {}
    n = len(layout.cell)
    one = np.repeat(np.arange(n, dtype=np.int32), np.diff(layout.candidate_start))
    equal = np.ones(len(one), np.bool_)
    for column in layout.values.T:
        equal &= column[one] == column[layout.candidates]
    twins = np.bincount(one[equal], minlength=n)
    doubtful = layout.grade >= LEAST_DOUBT
    one, two = one[doubtful], layout.candidates[doubtful]
    turned = (twins[one] > twins[two]) | ((twins[one] == twins[two]) & (one > two))
    key = np.where(turned, two, one).astype(np.int64) * n + np.where(turned, one, two)
    key, first = np.unique(key, return_index=True)
    mover, anchor = (key // n).astype(np.int32), (key % n).astype(np.int32)
    grade = layout.grade[doubtful][first].astype(np.float64)
    found, doubt = {}, {}
    for field in np.flatnonzero(~model.exact & ~model.near):
        one, two = layout.values[mover, field], layout.values[anchor, field]
        differ = (one != two) & (one >= 0) & (two >= 0)
        if differ.any():
            pairs = int(differ.sum())
            found[int(field)] = Toggles(
                block_start=np.searchsorted(mover[differ], layout.block_start),
                mover=mover[differ],
                anchor=anchor[differ],
                shown=np.zeros(pairs, np.int32),
                level=np.zeros(pairs, np.int32),
                together=np.zeros(pairs, np.bool_),
                log_gain=np.zeros(pairs),
            )
            doubt[int(field)] = float((grade[differ] ** 2).sum())
    least = worthwhile * max(doubt.values(), default=0.0)
    return {field: pairs for field, pairs in found.items() if doubt[field] >= least}


def draw_jointly(
    state: ChainState,
    model: Model,
    field: int,
    pairs: Toggles,
    execute: Serial,
    seed: int,
    chain: int,
    rng: np.random.Generator,
) -> None:
    """Draw the rate of a field and its toggles, all else staying as it is, y and z summed out.

    The rate is chosen from a lattice of logarithms that holds the current one at a random place.
    V[N] is not a product over toggles: one that is (each link weighing what the first would) is
    used to draw them, and a Metropolis step mends the difference.
    """
    current = int(rng.integers(RATES))
    rates = state.beta[0, field] * np.exp(STEP * (np.arange(RATES) - current))
    rates = rates[rates < 1.0]  # the current one is below 1, so it keeps its place
    tables = tabulate_state(state, model)
    log_size = model.prior.log_size(model.largest_cluster, state.hyperparameters)
    agreed, others = execute.toggles(state, tables, log_size, pairs, field, rates, seed, chain)
    taken = np.flatnonzero(pairs.shown)
    before = int(pairs.together[taken].sum())
    apart = state.entities + before  # entities if all toggles were apart

    def log_prior(links: int) -> float:
        return model.prior.log_entities(state.hyperparameters, apart - links, len(state.entity))

    log_link = log_prior(1) - log_prior(0) if len(taken) else 0.0
    # all hosts that show the same level as often are alike in the field
    levels = len(tables.theta)
    alike, kind = np.unique(pairs.shown[taken] * levels + pairs.level[taken], return_inverse=True)
    host_shown, host_level = alike // levels, alike % levels
    log_apart = log_agreed(host_shown, tables.theta[host_level], rates)
    # one value more that differs makes beta w + beta^s (1 - beta) of the weight w of s values
    log_rates = np.log(rates)[:, None]
    ratio = np.logaddexp(log_rates, host_shown * log_rates + np.log1p(-rates)[:, None] - log_apart)
    log_odds = (ratio - ratio[current])[:, kind] + (pairs.log_gain[taken] + log_link)
    shows, level = np.nonzero(agreed)
    log_target = (
        (log_agreed(shows, tables.theta[level], rates) * agreed[shows, level]).sum(axis=1)
        + others
        + log_apart @ np.bincount(kind, minlength=len(alike))
        + (np.maximum(log_odds, 0.0) + np.log(1.0 + np.exp(-np.abs(log_odds)))).sum(axis=1)
        + model.coded[field].a * np.log(rates)  # with the Jacobian of the logarithm
        + (model.coded[field].b - 1.0) * np.log1p(-rates)
    )
    running = np.cumsum(np.exp(log_target - log_target.max()))
    chosen = int(np.searchsorted(running, rng.random() * running[-1], side="right"))
    wanted = np.zeros(len(pairs.mover), np.bool_)
    with np.errstate(over="ignore"):
        wanted[taken] = rng.random(len(taken)) * (1.0 + np.exp(-log_odds[chosen])) < 1.0

    after = int(wanted.sum())
    mended = log_prior(after) - log_prior(before) - (after - before) * log_link
    if np.log(1.0 - rng.random()) < mended:
        execute.set_toggles(state, pairs, wanted)
        state.entities = apart - after
        state.beta[0, field] = rates[chosen]


def log_agreed(shown: NDArray[np.integer], theta: Floats, rates: Floats) -> Floats:
    """Log weight in a field of clusters that show one level so often (rates, clusters)."""
    rate = rates[:, None]
    with np.errstate(divide="ignore"):  # a level that is certain leaves nothing to the others
        elsewhere = np.log1p(-np.minimum(theta, 1.0)) + shown * np.log(rate)
    return np.logaddexp(elsewhere, np.log(theta) + shown * np.log(rate + (1.0 - rate) / theta))
