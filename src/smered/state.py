"""The state of a chain: what the next sweep needs, and nothing else."""

import itertools
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from smered.layout import Bools, Floats, Int32s, Int64s, Layout, Parameters, Uint8s
from smered.model import Model
from smered.records import number_rows

__all__ = ["ONE_CLASS", "ChainState", "Classes", "check_state", "class_mass"]
__all__ += [
    "draw_classes",
    "fields_to_agree_on",
    "find_wrong_link",
    "generator",
    "kept_apart",
    "link_equal",
]
__all__ += ["start_linkage", "start_parameters", "start_state"]
__all__ += ["tabulate", "tabulate_state"]

LEAST_THETA, LEAST_BETA, LARGEST_BETA = 1e-300, 1e-100, 1.0 - 2.0**-53
LARGEST_CLOSENESS, FIRST_CLOSENESS = 1.0 - 1e-9, 0.9
FIRST_CHANGE = 0.05
# what is drawn: before and after the proposals of a sweep, between sweeps, before all of them, the
# owners of labels in a sweep or between two, fields to condition on, and labels for joint draws
BEFORE, AFTER, GRADING, STARTING, SHARING, SHARING_GRADES, ROTATING, SHARING_JOINTLY = range(8)
WORDS = 4  # random numbers of one step of Philox
LARGEST_LOG_PRODUCT = 300.0  # brackets of clusters up to `small` stay far below overflow


@dataclass
class ChainState:
    """Linkage and parameters after a sweep, and the counts from which the next one draws."""

    sweep: int
    entity: Int32s  # (n,) kernel order: first record of each record's cluster
    entities: int
    theta: Floats  # (T,)
    beta: Floats  # (R, p)
    closeness: Floats  # (p,)
    change: Floats  # (k - 1, p) rate at which a true value changes from one file to the next
    class_weight: Floats  # (C,)
    class_theta: Floats  # (T, C), or (1, 1) without latent classes
    hyperparameters: Floats  # of the prior on the linkage
    level_counts: Int64s  # (T,)
    distorted: Int64s  # (R, p)
    telling: Int64s  # (R, p)
    slips: Int64s  # (R, p)
    changed: Int64s  # (k - 1, p)
    exposed: Int64s  # (k - 1, p)
    class_counts: Int64s  # (C,)
    class_levels: Int64s  # (T, C), or (1, 1)
    grade: Uint8s  # of each candidate, from the second half of the burn-in on; empty before


def generator(
    seed: int, chain: int, sweep: int, when: int = BEFORE, number: int = 0
) -> np.random.Generator:
    """The generator of what is drawn once per sweep, or once for each of a number of things."""
    key = np.array([seed, chain], np.uint64)
    return np.random.Generator(np.random.Philox(key=key, counter=[0, number, sweep, when]))


class Classes(NamedTuple):
    """Latent classes: their shares (C,), and the probability of true values in each (T, C)."""

    weight: Floats
    theta: Floats


ONE_CLASS = Classes(np.ones(1), np.ones((1, 1)))


def tabulate(
    theta: Floats,
    beta: Floats,
    model: Model,
    closeness: Floats | None = None,
    classes: Classes = ONE_CLASS,
    change: Floats | None = None,
) -> Parameters:
    """Prepare level probabilities and distortion rates for look-up by the kernels.

    `closeness` may be left out where values agree or differ in every field, `change` where no
    true value changes.
    """
    change = np.zeros(model.change_shape) if change is None else change
    closeness = np.zeros(len(model.coded)) if closeness is None else closeness
    starts = model.field_start
    cumulative = np.concatenate([np.cumsum(theta[a:b]) for a, b in itertools.pairwise(starts)])
    odds = np.where(model.exact, 0.0, (1.0 - beta) / np.maximum(beta, LEAST_BETA))
    inverse = np.where(np.repeat(model.given, np.diff(starts)), 1.0, 1.0 / theta)
    rarest = np.array([inverse[a:b].max() for a, b in itertools.pairwise(starts)])
    for column in np.flatnonzero(model.near):  # twins are never shown
        part, own = model.coded[column], slice(*starts[column : column + 2])
        rarest[column] = 1.0 / part.near.share[: part.values].min()
        inverse[own] = 1.0 / part.near.marginal
    largest_log_rho = float(np.log1p(odds.max(axis=0) * rarest).max())
    if model.near.any():
        kernel = model.near_tables["near_kernel"].max(initial=1.0)
        largest_log_rho += float(np.log1p(kernel) - np.log1p(-closeness.max()))
    small = int(min(LARGEST_LOG_PRODUCT / max(largest_log_rho, 1e-9), 64))
    rate = np.where(model.exact, 0.0, beta[0])
    differ = rate * (2.0 - rate)
    levels = np.diff(starts)
    agree = np.repeat(differ, levels) + np.repeat((1.0 - rate) ** 2, levels) * inverse
    # a value of three that agree comes to (1 - theta) rate^3 + theta (rate + (1 - rate)/theta)^3
    each = np.repeat(rate, levels)
    with np.errstate(over="ignore"):  # at levels so rare that no record shows them
        thrice = (1.0 - theta) * each**3 + theta * (each + (1.0 - each) * inverse) ** 3
    thrice[np.repeat(model.given, levels)] = 1.0
    for column in np.flatnonzero(model.near):
        own, near = slice(*starts[column : column + 2]), model.coded[column].near
        close, one = closeness[column], rate[column]
        agree[own] = (
            (1.0 - one) ** 2 * inverse[own]
            + 2.0 * one * (1.0 - one) * (1.0 - close + close * near.itself)
            + one**2 * (1.0 - close**2 + close**2 * near.twice)
        )
        far = 1.0 - close
        again = far + close * near.itself
        every = far**3 + 3.0 * far**2 * close + 3.0 * far * close**2 * near.twice
        every = every + close**3 * near.thrice
        with np.errstate(over="ignore"):
            copied = theta[own] * ((one * again + (1.0 - one) * inverse[own]) ** 3)
        thrice[own] = one**3 * (every - theta[own] * again**3) + copied
    return Parameters(
        theta, inverse, cumulative, odds, agree, differ, thrice, rate, closeness,
        classes.weight, np.ascontiguousarray(classes.theta), kept_between(change), max(small, 1),
    )  # fmt: skip


def tabulate_state(state: ChainState, model: Model) -> Parameters:
    """Prepare the parameters of a state for look-up by the kernels."""
    classes = Classes(state.class_weight, state.class_theta)
    return tabulate(state.theta, state.beta, model, state.closeness, classes, state.change)


def kept_between(change: Floats) -> Floats:
    """Probability that a true value is the same at two times (k, k, p)."""
    steps, fields = change.shape
    found = np.ones((steps + 1, steps + 1, fields))
    for one in range(steps):
        run = np.cumprod(1.0 - change[one:], axis=0)
        found[one, one + 1 :] = run
        found[one + 1 :, one] = run
    return found


def class_mass(theta: Floats, model: Model) -> Floats:
    """Dirichlet hyperparameters of the true values in a class: theta with the mass of mu (T,)."""
    mass = np.add.reduceat(model.mu, model.field_start[:-1])
    found: Floats = np.repeat(mass, np.diff(model.field_start)) * theta
    return found


def draw_classes(
    counts: Int64s, levels: Int64s, theta: Floats, model: Model, rng: np.random.Generator
) -> Classes:
    """Draw the latent classes given the entities and true values in each (equation 19).

    Shares are Dirichlet with the mass of one entity spread over all classes, so that classes that
    are not needed empty; a class's true values are Dirichlet around theta, with the mass of mu.
    """
    if model.classes == 1:
        return ONE_CLASS
    weight = np.maximum(rng.standard_gamma(1.0 / model.classes + counts), LEAST_THETA)
    sizes = np.diff(model.field_start)
    mass, mixed = class_mass(theta, model), model.mixed
    found = np.ones(model.class_shape)
    drawn = np.maximum(rng.standard_gamma(mass[mixed, None] + levels[mixed]), LEAST_THETA)
    found[mixed] = drawn
    totals = np.add.reduceat(found, model.field_start[:-1], axis=0)
    return Classes(weight / weight.sum(), found / np.repeat(totals, sizes, axis=0))


# How far from each other chains start, so that their agreement means something: which records
# that agree are linked at first, and the first distortion rates.
STARTS = (("agree", 0.01), ("alone", 0.005), ("loose", 0.002), ("half", 0.02))


def start_state(model: Model, layout: Layout, chain: int, seed: int) -> ChainState:
    """Start a chain: 0 links records that agree on every field, others are spread around it."""
    state = start_parameters(model, chain, seed)
    state.entity = start_linkage(model, layout, chain, seed)
    state.entities = int((state.entity == np.arange(len(state.entity))).sum())
    return state


def start_parameters(model: Model, chain: int, seed: int) -> ChainState:
    """Start a chain whose linkage is left out."""
    _, rate = STARTS[chain % len(STARTS)]
    theta = np.concatenate(
        [part.base_shares if part.similar is None else part.near.share for part in model.coded]
    )
    classes = draw_classes(
        np.ones(model.classes, np.int64),
        np.zeros(model.class_shape, np.int64),
        theta,
        model,
        generator(seed, chain, 0),
    )
    return ChainState(
        sweep=0,
        entity=np.empty(0, np.int32),
        entities=0,
        theta=theta,
        beta=np.where(model.exact, 0.0, np.full((model.rate_rows, len(model.coded)), rate)),
        closeness=np.where(model.close, FIRST_CLOSENESS, 0.0),
        change=np.where(model.changing, np.full(model.change_shape, FIRST_CHANGE), 0.0),
        class_weight=classes.weight,
        class_theta=classes.theta,
        hyperparameters=model.partition_prior.start(model.size),
        level_counts=np.zeros(len(theta), np.int64),
        distorted=np.zeros((model.rate_rows, len(model.coded)), np.int64),
        telling=np.zeros((model.rate_rows, len(model.coded)), np.int64),
        slips=np.zeros((model.rate_rows, len(model.coded)), np.int64),
        changed=np.zeros(model.change_shape, np.int64),
        exposed=np.zeros(model.change_shape, np.int64),
        class_counts=np.zeros(model.classes, np.int64),
        class_levels=np.zeros(model.class_shape, np.int64),
        grade=np.empty(0, np.uint8),
    )


def start_linkage(model: Model, layout: Layout, chain: int, seed: int, before: int = 0) -> Int32s:
    """Link records for the first time, as the kind of a chain's start says.

    `before` is the number of records that stand before those of the layout.
    """
    fields = fields_to_agree_on(model, chain, seed)
    every = len(fields) == layout.values.shape[1]
    values = layout.values if every else layout.values[:, fields]
    return link_equal(values, kept_apart(len(values), chain, seed, before), model, layout)


def fields_to_agree_on(model: Model, chain: int, seed: int) -> Int64s:
    """The fields in which records agree that a chain's start links: all, or all but one."""
    kind, _ = STARTS[chain % len(STARTS)]
    fields = np.arange(len(model.coded))
    if kind == "loose" and not model.exact.all():
        left_out = generator(seed, chain, 0, STARTING).choice(np.flatnonzero(~model.exact))
        fields = np.delete(fields, int(left_out))
    return fields


def kept_apart(records: int, chain: int, seed: int, before: int = 0) -> Bools:
    """Which of so many records lead no cluster at a chain's start; `before` stand before them."""
    kind, _ = STARTS[chain % len(STARTS)]
    if kind != "half":
        return np.full(records, kind == "alone")
    coins = generator(seed, chain, 0, STARTING)
    coins.bit_generator.advance(before // WORDS)  # type: ignore[attr-defined]
    apart: Bools = coins.random(before % WORDS + records)[before % WORDS :] < 0.5
    return apart


def link_equal(values: Int32s, apart: Bools, model: Model, layout: Layout) -> Int32s:
    """Link records of a block that are equal in `values` (n, c), as far as that is legal.

    In files without duplicates, the first of several equal records goes with the first of the
    other files, the second with the second, and so on. Clusters whose first record is to be kept
    `apart` fall into single records.
    """
    n = len(layout.cell)
    if apart.all():
        return np.arange(n, dtype=np.int32)
    sizes = np.diff(layout.block_start)
    block = np.repeat(np.arange(len(sizes), dtype=np.int32), sizes)
    group = number_rows([block, *values.T], n)
    file = layout.cell_file[layout.cell]
    by_group = np.lexsort((file, group))
    new = np.append(
        True,
        (group[by_group][1:] != group[by_group][:-1]) | (file[by_group][1:] != file[by_group][:-1]),
    )
    position = np.arange(n)
    rank = np.empty(n, np.int32)
    rank[by_group] = position - np.maximum.accumulate(np.where(new, position, 0))
    rank[~model.single[file]] = 0
    cluster = number_rows([group.astype(np.int32), rank], n)
    entity = np.unique(cluster, return_index=True)[1][cluster]
    return np.where(apart[entity], np.arange(n), entity).astype(np.int32)


def find_wrong_link(entity: Int32s, model: Model, layout: Layout) -> str | None:
    """What is wrong with a linkage, in kernel order, if anything is."""
    n = len(entity)
    position = np.arange(n)
    if not ((entity >= 0) & (entity <= position)).all():
        return "a cluster is not named by its first record"
    if not (entity[entity] == entity).all():
        return "a cluster's name is not a member"
    block = np.repeat(np.arange(len(model.block_sizes)), model.block_sizes)
    if not (block[entity] == block).all():
        return "a cluster spans blocks"
    file = layout.cell_file[layout.cell]
    restricted = (entity.astype(np.int64) * len(model.single) + file)[model.single[file]]
    if len(np.unique(restricted)) != len(restricted):
        return "a cluster holds two records of a file without duplicates"
    for column in np.flatnonzero(model.exact):
        shown = layout.values[:, column] >= 0
        pairs = np.unique(np.stack((entity[shown], layout.values[shown, column])), axis=1)
        if len(np.unique(pairs[0])) != pairs.shape[1]:
            return "an exact field differs in a cluster"
    return None


def check_state(state: ChainState, model: Model, layout: Layout) -> None:
    """Recompute what must be true of a state from the data; raise AssertionError if it is not."""
    wrong = find_wrong_link(state.entity, model, layout)
    assert wrong is None, wrong
    named = state.entity == np.arange(len(state.entity))
    assert state.entities == int(named.sum()), "entities are miscounted"
    starts = model.field_start[:-1]
    assert np.allclose(np.add.reduceat(state.theta, starts), 1.0), "theta does not sum to 1"
    assert (state.distorted <= state.telling).all(), "more distorted values than telling ones"
    assert (state.telling <= model.observed).all(), "more telling values than values"
    free = ~model.exact & ~model.changing  # entities may have several values over time
    counted = np.add.reduceat(state.level_counts, starts)[free] - state.distorted.sum(axis=0)[free]
    assert (counted <= state.entities).all(), "more true values than entities"
