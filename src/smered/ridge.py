"""Rates of changing fields, drawn along what two records cannot tell apart (equation 29).

Two records of an entity differ because one is wrong or because the value changed between them. What
they show depends on little but the sum of both rates; records at three times tell them apart. Drawn
in turn, given which it was in each cluster, either rate hardly moves. Here both move together, the
sum staying as it is and all true values, distortions and changes being summed out.
"""

from dataclasses import replace

import numpy as np

from smered.execute.contract import Executor
from smered.layout import Floats
from smered.model import Model
from smered.priors.prior import slice_step
from smered.state import LEAST_BETA, ChainState, tabulate_state
from smered.sums import as_floats

__all__ = ["CHANGE_A", "CHANGE_B", "draw_along_ridge", "log_change_density"]

CHANGE_A, CHANGE_B = 1.0, 9.0  # a value in ten is expected to change, by a weak prior
WIDTH = 0.6  # of the slice, in logs of the distortion rate


def log_change_density(change: Floats) -> float:
    """Log prior density of rates of change, up to a constant."""
    rest = np.log(np.maximum(1.0 - change, LEAST_BETA)).sum()
    return float((CHANGE_A - 1.0) * np.log(np.maximum(change, LEAST_BETA)).sum()) + float(
        (CHANGE_B - 1.0) * rest
    )


def draw_along_ridge(
    state: ChainState, model: Model, field: int, execute: Executor, rng: np.random.Generator
) -> None:
    """Draw a field's distortion rate and rates of change on the line on which their sum stays."""
    part, start, change = model.coded[field], state.beta[0, field], state.change[:, field]

    def moved(step: float) -> ChainState:
        beta, rates = state.beta.copy(), state.change.copy()
        beta[0, field] = start * np.exp(step)
        rates[:, field] = change - 2.0 * (beta[0, field] - start)
        return replace(state, beta=beta, change=rates)

    def log_density(step: float) -> float:
        if start * np.exp(step) >= 1.0:
            return -np.inf
        there = moved(step)
        beta, rates = there.beta[0, field], there.change[:, field]
        if not (beta >= LEAST_BETA and (rates > 0.0).all() and (rates < 1.0).all()):
            return -np.inf
        weight = as_floats(execute.weigh_field(there, tabulate_state(there, model), field))
        prior = part.a * np.log(beta) + (part.b - 1.0) * np.log1p(-beta)  # density of log beta
        return float(weight + prior) + log_change_density(rates)

    there = moved(slice_step(0.0, log_density, rng, WIDTH))
    state.beta, state.change = there.beta, there.change
