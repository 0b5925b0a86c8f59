"""A distortion rate drawn jointly with the links that depend on it (equation 13).

A low rate forbids links between records that differ in the field, and few such links keep the rate
low: drawn in turn, the two hold each other fast. Here toggles, links that may be set independently
of each other, are summed out while the rate is drawn, and drawn after it.
"""

import numpy as np
from numpy.typing import NDArray

from smered.execute.contract import Executor
from smered.layout import UNLIMITED, Floats, LinkagePrior
from smered.model import Model
from smered.state import ChainState, tabulate_state
from smered.sums import as_floats

__all__ = ["doubtful_fields", "draw_jointly"]

WORTHWHILE = 0.05  # of the doubt in the most doubtful field: what makes a field worth the time
RATES, STEP = 12, 0.15  # rates that a draw chooses from, and the step between their logarithms


def doubtful_fields(execute: Executor, model: Model, worthwhile: float = WORTHWHILE) -> list[int]:
    """The fields in which doubtful candidates differ, where these are many.

    There are none if rates differ by file or there are latent classes, nor fields that are near or
    change over time.
    """
    if model.rate_rows > 1 or model.classes > 1:
        return []
    may_differ = np.flatnonzero(~model.exact & ~model.near & ~model.changing).tolist()
    doubt = execute.find_doubtful(may_differ)
    least = worthwhile * max(doubt.values(), default=0)
    return [field for field in may_differ if doubt.get(field, 0) >= max(least, 1)]


def draw_jointly(
    state: ChainState,
    model: Model,
    field: int,
    execute: Executor,
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
    values, base = state.hyperparameters, model.partition_prior.base(state.hyperparameters)
    log_share = model.partition_prior.log_share(values)
    prior = LinkagePrior(0.0, UNLIMITED, values, base, log_share)
    found = execute.find_toggles(state, tables, prior, field, rates, seed, chain)
    apart = state.entities + found.together  # entities if all toggles were apart

    def log_prior(links: int) -> float:
        if model.partition_prior.by_block:
            return 0.0  # given what each block drew, links weigh in its toggles alone
        return model.partition_prior.log_entities(values, apart - links, model.size)

    # all hosts that show the same level as often are alike in the field
    host_shown, host_level = np.nonzero(found.hosts)
    log_link = log_prior(1) - log_prior(0) if len(host_shown) else 0.0
    theta = tables.theta[model.field_start[field] + host_level]
    log_apart = log_agreed(host_shown, theta, rates)
    # one value more that differs makes beta w + beta^s (1 - beta) of the weight w of s values
    log_rates = np.log(rates)[:, None]
    ratio = np.logaddexp(log_rates, host_shown * log_rates + np.log1p(-rates)[:, None] - log_apart)
    log_odds = ratio - ratio[current] + log_link
    kinds = np.zeros(found.hosts.shape, np.int32)
    kinds[host_shown, host_level] = np.arange(len(host_shown))
    shows, level = np.nonzero(found.agreed)
    log_target = (
        (log_agreed(shows, tables.theta[level], rates) * found.agreed[shows, level]).sum(axis=1)
        + as_floats(found.others)
        + log_apart @ found.hosts[host_shown, host_level]
        + as_floats(execute.weigh_toggles(field, kinds, log_odds))
        + model.coded[field].a * np.log(rates)  # with the Jacobian of the logarithm
        + (model.coded[field].b - 1.0) * np.log1p(-rates)
    )
    running = np.cumsum(np.exp(log_target - log_target.max()))
    chosen = int(np.searchsorted(running, rng.random() * running[-1], side="right"))

    after = execute.draw_toggles(state, field, kinds, log_odds[chosen], seed, chain)
    mended = log_prior(after) - log_prior(found.together) - (after - found.together) * log_link
    if np.log(1.0 - rng.random()) < mended:
        execute.set_toggles(state, field)
        state.entities = apart - after
        state.beta[0, field] = rates[chosen]


def log_agreed(shown: NDArray[np.integer], theta: Floats, rates: Floats) -> Floats:
    """Log weight in a field of clusters that show one level so often (rates, clusters)."""
    rate = rates[:, None]
    with np.errstate(divide="ignore"):  # a level that is certain leaves nothing to the others
        elsewhere = np.log1p(-np.minimum(theta, 1.0)) + shown * np.log(rate)
    return np.logaddexp(elsewhere, np.log(theta) + shown * np.log(rate + (1.0 - rate) / theta))
