"""The sampler: Algorithm 1 of the paper, with true values and distortions summed out.

One sweep draws the parameters given the current true values and distortions, then the linkage by
split-merge proposals, then true values and distortions again. A draw is the state after a sweep.
"""

import operator
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from smered.counts import draw_counts
from smered.errors import ConfigError
from smered.execute.contract import Executor
from smered.joint import doubtful_fields, draw_jointly
from smered.layout import COIN_SIDES, Int64s, LinkagePrior, Parameters, Statistics
from smered.model import PROPOSALS_PER_RECORD, Model, usual_proposals
from smered.ridge import CHANGE_A, CHANGE_B, draw_along_ridge, log_change_density
from smered.state import (
    AFTER,
    GRADING,
    LARGEST_BETA,
    LARGEST_CLOSENESS,
    LEAST_BETA,
    LEAST_THETA,
    ChainState,
    class_mass,
    draw_classes,
    generator,
    start_parameters,
    tabulate_state,
)
from smered.sums import as_floats

__all__ = ["TUNED_PROPOSALS_PER_RECORD", "Settings", "Step", "run_chain"]

# informed ones, where some values are near each other and where none are; docs/decisions/0005, 0012
TUNED_PROPOSALS_PER_RECORD = {True: 0.7, False: 3.0}
MOST_SWEEPS = 2**31
MOST_CHAINS = 4096  # with random numbers of their own
TUNINGS = 8  # states that candidates are graded by
TELLING_SIZE = 3  # priors that look at the sizes of clusters do so up to here, too
SWEEPS_PER_RIDGE = 2  # a draw of the rates of a field that changes
SWEEPS_PER_JOINT_DRAW = 2  # of a rate with its links; see docs/decisions/0006


@dataclass(frozen=True)
class Settings:
    """How long and how to sample. The answer depends on `threads` in no way.

    `draws` are kept per chain, one every `thin` sweeps, after `burn_in` sweeps. A sweep makes
    `proposals` proposals (default: four per record during the burn-in, about one after it,
    where they are worth most, and in all cases some thousands).
    """

    draws: int = 500
    burn_in: int = 200
    thin: int = 1
    chains: int = 4
    seed: int = 0
    threads: int = 1
    proposals: int | None = None

    def __post_init__(self) -> None:
        least = {"draws": 1, "burn_in": 0, "thin": 1, "chains": 1, "seed": 0, "threads": 1}
        for name, bound in (least | {"proposals": 1}).items():
            value = getattr(self, name)
            if name == "proposals" and value is None:
                continue
            try:
                whole = operator.index(value)
            except TypeError:
                raise ConfigError(f"{name} = {value!r} must be a whole number") from None
            if whole < bound:
                raise ConfigError(f"{name} = {whole} must be at least {bound}")
            object.__setattr__(self, name, whole)
        if self.proposals is not None and self.proposals >= 2**32 - 1:
            raise ConfigError(f"proposals = {self.proposals} must be below 2**32 - 1")
        if self.seed >= 2**64:
            raise ConfigError(f"seed = {self.seed} must be below 2**64")
        if self.sweeps >= MOST_SWEEPS:
            raise ConfigError(f"{self.sweeps} sweeps of a chain must be below {MOST_SWEEPS}")
        if self.chains >= MOST_CHAINS:
            raise ConfigError(f"chains = {self.chains} must be below {MOST_CHAINS}")

    @property
    def sweeps(self) -> int:
        """Sweeps of one chain."""
        return self.burn_in + self.draws * self.thin

    def draw_of(self, sweep: int) -> int | None:
        """Number of the draw that a sweep ends, if it ends one."""
        number, left = divmod(sweep - self.burn_in, self.thin)
        return number - 1 if number > 0 and left == 0 else None


@dataclass(frozen=True)
class Step:
    """One sweep: the state it led to, which the next sweep overwrites, and how it went."""

    chain: int
    draw: int | None  # number of the draw this sweep ends, None if it ends none
    state: ChainState
    moves: Int64s  # (6,) merges, splits and transfers: proposed and accepted, in turn
    log_posterior: float | None  # at draws


def run_chain(
    model: Model, settings: Settings, chain: int, execute: Executor, state: ChainState | None = None
) -> Iterator[Step]:
    """Run one chain, from its start or on from a given state, and yield every sweep."""
    if state is None:
        state = start_parameters(model, chain, settings.seed)
        execute.start(state, settings.seed, chain)
        tables = tabulate_state(state, model)
        statistics = execute.count(state, tables, settings.seed, chain)
        keep_counts(state, statistics, tables, model, settings.seed, chain)

    doubtful: list[int] = []
    both = model.changing & ~model.exact & (model.rate_rows == 1)
    ridges = np.flatnonzero(both).tolist()
    tunings = tuning_sweeps(settings) if execute.candidates else []
    if tunings and state.sweep > settings.burn_in:
        doubtful = tune(state, model, settings, execute)
    while state.sweep < settings.sweeps:
        if state.sweep in tunings:
            grade(state, model, settings, chain, execute, tunings.index(state.sweep))
        if tunings and state.sweep == settings.burn_in:
            doubtful = tune(state, model, settings, execute)
        state.sweep += 1
        rng = generator(settings.seed, chain, state.sweep)
        draw_parameters(state, model, execute, settings.seed, chain, rng)
        turn, rest = divmod(state.sweep, SWEEPS_PER_JOINT_DRAW)
        if doubtful and not rest:
            field = doubtful[turn % len(doubtful)]
            draw_jointly(state, model, field, execute, settings.seed, chain, rng)
        if ridges and not state.sweep % SWEEPS_PER_RIDGE:
            field = ridges[state.sweep // SWEEPS_PER_RIDGE % len(ridges)]
            draw_along_ridge(state, model, field, execute, rng)
        tables = tabulate_state(state, model)
        prior = condition_prior(state, model, rng)
        statistics = execute.sweep(state, tables, prior, settings.seed, chain)
        keep_counts(state, statistics, tables, model, settings.seed, chain)
        state.entities = int(statistics.entities[0])

        draw = settings.draw_of(state.sweep)
        density = None if draw is None else log_posterior(state, model, execute, statistics)
        yield Step(chain, draw, state, statistics.moves, density)


def tuning_sweeps(settings: Settings) -> list[int]:
    """After which sweeps of the burn-in candidates are graded: its second half and its end."""
    apart = settings.burn_in // (2 * TUNINGS)
    return sorted({settings.burn_in - i * apart for i in range(TUNINGS)} - {0})


def grade(
    state: ChainState, model: Model, settings: Settings, chain: int, execute: Executor, before: int
) -> None:
    """Grade candidates by the state as it is, and by the states that they were graded by before."""
    tables = tabulate_state(state, model)
    prior = condition_prior(state, model, generator(settings.seed, chain, state.sweep, GRADING))
    execute.grade(state, tables, prior, before, settings.seed, chain)


def tune(state: ChainState, model: Model, settings: Settings, execute: Executor) -> list[int]:
    """Make fewer proposals, where they are worth making; return the fields to draw jointly.

    Uniform proposals, which find what no list holds, stay as many as before.
    """
    usual = usual_proposals(model.size, PROPOSALS_PER_RECORD)
    per_record = TUNED_PROPOSALS_PER_RECORD[bool(model.near.any())]
    informed = usual_proposals(model.size, per_record, tuned=True)
    uniform = (settings.proposals or usual) * execute.uniform_share / COIN_SIDES
    if settings.proposals is not None:
        informed = settings.proposals - uniform
    execute.tune(state, informed, uniform)
    return doubtful_fields(execute, model)


def keep_counts(
    state: ChainState,
    statistics: Statistics,
    tables: Parameters,
    model: Model,
    seed: int,
    chain: int,
) -> None:
    """Take over the counts of true values and distortions."""
    rng = generator(seed, chain, state.sweep, AFTER)
    counts = draw_counts(statistics, tables, model, rng)
    state.level_counts, state.distorted, state.telling, state.slips = counts
    state.class_counts, state.class_levels = statistics.class_counts, statistics.class_levels
    state.changed, state.exposed = statistics.changed, statistics.exposed


def draw_parameters(
    state: ChainState,
    model: Model,
    execute: Executor,
    seed: int,
    chain: int,
    rng: np.random.Generator,
) -> None:
    """Draw theta, beta and the prior's hyperparameters given linkage, y and z (equation 11)."""
    weights, learned = state.theta.copy(), model.learned
    drawn = rng.standard_gamma(model.mu[learned] + state.level_counts[learned])
    weights[learned] = np.maximum(drawn, LEAST_THETA)
    totals = np.add.reduceat(weights, model.field_start[:-1])
    state.theta = weights / np.repeat(totals, np.diff(model.field_start))
    a = np.array([part.a for part in model.coded])
    b = np.array([1.0 if part.exact else part.b for part in model.coded])
    drawn = rng.beta(a + state.distorted, b + state.telling - state.distorted)
    state.beta = np.where(model.exact, 0.0, np.clip(drawn, LEAST_BETA, LARGEST_BETA))
    if model.close.any():
        slips, distorted = state.slips.sum(axis=0), state.distorted.sum(axis=0)
        drawn = np.clip(rng.beta(1 + slips, 1 + distorted - slips), 0.0, LARGEST_CLOSENESS)
        state.closeness = np.where(model.close, drawn, 0.0)
    if model.changing.any():
        kept = state.exposed - state.changed
        drawn = rng.beta(CHANGE_A + state.changed, CHANGE_B + kept)
        state.change = np.where(model.changing, drawn, 0.0)
    state.class_weight, state.class_theta = draw_classes(
        state.class_counts, state.class_levels, state.theta, model, rng
    )
    prior = model.partition_prior
    if prior.hyperparameters:
        kinds, pooled = execute.kinds(state), None
        if prior.by_block:
            pooled = execute.pool(state, prior.base(state.hyperparameters), seed, chain)
        state.hyperparameters = prior.update(state.hyperparameters, kinds, pooled, rng)


def condition_prior(state: ChainState, model: Model, rng: np.random.Generator) -> LinkagePrior:
    """Make the blocks independent for one sweep, once they share the free labels (equation 8)."""
    log_unit, free = model.partition_prior.condition(
        state.hyperparameters, state.entities, model.size, rng
    )
    prior, values = model.partition_prior, state.hyperparameters
    return LinkagePrior(log_unit, free, values, prior.base(values), prior.log_share(values))


def log_classes(state: ChainState, model: Model) -> float:
    """Log density of the latent classes, up to a constant."""
    if model.classes == 1:
        return 0.0
    mass = class_mass(state.theta, model)
    log_theta = np.log(np.maximum(state.class_theta[model.mixed], LEAST_THETA))
    total = float(((mass[model.mixed, None] - 1.0) * log_theta).sum())
    return total + float((1.0 / model.classes - 1.0) * np.log(state.class_weight).sum())


def log_posterior(
    state: ChainState, model: Model, execute: Executor, statistics: Statistics
) -> float:
    """Log density of linkage and parameters, y and z summed out, up to a constant."""
    log_weight = float(as_floats(statistics.log_weight))
    log_theta = np.log(np.maximum(state.theta, LEAST_THETA))
    counts = np.where(model.told, 0.0, model.shown + model.mu - model.learned)
    total = log_weight + float((counts * log_theta).sum())
    for column, part in enumerate(model.coded):
        if not part.exact:
            beta = np.clip(state.beta[:, column], LEAST_BETA, 1 - 1e-16)
            total += float((part.a - 1) * np.log(beta).sum())
            total += float((part.b - 1) * np.log1p(-beta).sum())
    total += log_classes(state, model)
    total += log_change_density(state.change[:, model.changing])
    prior = model.partition_prior
    values = state.hyperparameters
    few = model.log_kind(values, min(model.largest_cluster, TELLING_SIZE))
    log_share = prior.log_share(values)
    if few.any() or log_share.any():  # else clusters of all kinds weigh the same
        kinds = execute.kinds(state)
        present = kinds.numbers > 0
        log_kind = model.log_kind(values, kinds.numbers.shape[1] - 1)
        total += float(log_kind[present] @ kinds.numbers[present])
        if len(log_share):
            total += float(log_share @ kinds.shares)
    if prior.by_block:
        total += float(as_floats(execute.weigh_shares(state, prior.base(state.hyperparameters))))
    return total + prior.log_entities(state.hyperparameters, state.entities, model.size)
