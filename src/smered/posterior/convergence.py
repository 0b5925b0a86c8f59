"""Diagnostics of a posterior: a table of numbers, and what they mean in plain words."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from smered.diagnostics import LEAST_DRAWS, ess_bulk, ess_tail, mcse, rhat
from smered.layout import Floats
from smered.posterior.sets import MatchingSets
from smered.store.lifetimes import Lifetimes
from smered.store.rows import KINDS

__all__ = ["MOST_RHAT", "Diagnostics", "chain_agreement", "diagnose", "verdict"]

MOST_RHAT = 1.01
LEAST_ESS = 100  # per chain
# The density of everything at once wanders with links that no answer depends on: its chains must
# meet, and how many draws of it are independent matters to nobody.
DENSITY, MOST_RHAT_OF_DENSITY = "log_posterior", 1.05
LARGEST_COMPARED = 30  # records of a cluster whose pairs are compared between chains
MOST_DISAGREEMENT = 0.2  # between two chains' probabilities of one pair, at the 99% quantile


@dataclass(frozen=True)
class Diagnostics:
    """How well the chains mixed.

    `table` has a row for each number: mean, sd, mcse, ess_bulk, ess_tail, rhat. `acceptance` is
    the share of proposals accepted by move. `pair_disagreement` is the 99% quantile, over pairs
    that are linked in some but not all draws, of the spread between chains of their probability.
    """

    table: pa.Table
    acceptance: dict[str, float]
    pair_disagreement: float
    warnings: tuple[str, ...]
    chains: int

    @property
    def sentence(self) -> str:
        """The verdict in one sentence."""
        if not self.warnings and self.chains == 1:
            return "The chain mixed well; two or more would show whether others agree with it."
        if not self.warnings:
            return "The chains agree and mixed well."
        return "Not to be relied on yet: " + "; ".join(self.warnings) + "."


def diagnose(
    scalars: dict[str, Floats], moves: dict[str, Floats], disagreement: float
) -> Diagnostics:
    """Compute diagnostics of label-free numbers, each (chains, draws)."""
    rows: list[dict[str, Any]] = [
        {
            "name": name,
            "mean": float(draws.mean()),
            "sd": float(draws.std(ddof=1)) if draws.size > 1 else 0.0,
            "mcse": mcse(draws),
            "ess_bulk": ess_bulk(draws),
            "ess_tail": ess_tail(draws),
            "rhat": rhat(draws),
        }
        for name, draws in scalars.items()
    ]
    chains, draws_per_chain = next(iter(scalars.values())).shape
    if draws_per_chain < LEAST_DRAWS:
        few = f"{draws_per_chain} draws per chain are too few to judge: use more draws"
        return Diagnostics(
            pa.Table.from_pylist(rows), accepted(moves), disagreement, (few,), chains
        )
    warnings = []
    moving = [row for row in rows if row["sd"] > 0]
    worst = max(moving, key=lambda row: row["rhat"] - most_rhat(row), default=None)
    if chains > 1 and worst is not None and worst["rhat"] > most_rhat(worst):
        warnings.append(
            f"the chains have not reached the same place (R-hat of {worst['name']} is "
            f"{worst['rhat']:.3f}, above {most_rhat(worst)}): use a longer burn-in and more draws"
        )
    answers = [row for row in moving if row["name"] != DENSITY]
    least = min(answers, key=lambda row: min(row["ess_bulk"], row["ess_tail"]), default=None)
    if least is not None:
        worth = min(least["ess_bulk"], least["ess_tail"])
        if worth < LEAST_ESS * chains:
            warnings.append(
                f"the {chains * draws_per_chain} draws of {least['name']} are worth "
                f"{worth:.0f} independent ones, below {LEAST_ESS} per chain: use more draws"
            )
    if disagreement > MOST_DISAGREEMENT:
        warnings.append(
            f"the chains give some pairs different match probabilities (by {disagreement:.2f} or "
            "more in 1% of the doubtful pairs): use more draws"
        )
    return Diagnostics(
        pa.Table.from_pylist(rows), accepted(moves), disagreement, tuple(warnings), chains
    )


def most_rhat(row: dict[str, Any]) -> float:
    """The largest R-hat that a number may have."""
    return MOST_RHAT_OF_DENSITY if row["name"] == DENSITY else MOST_RHAT


def verdict(row: dict[str, Any], chains: int) -> str:
    """What one row of the table means, in plain words."""
    if row["sd"] == 0:
        return "the same in every draw"
    numbers = (row["rhat"], row["ess_bulk"], row["ess_tail"])
    if any(number is None or number != number for number in numbers):
        return "too few draws to judge"
    if chains > 1 and row["rhat"] > most_rhat(row):
        return "the chains differ: a longer burn-in and more draws are needed"
    few = min(row["ess_bulk"], row["ess_tail"]) < LEAST_ESS * chains
    if few and row["name"] != DENSITY:
        return "few independent draws: more are needed"
    return "good" if chains > 1 else "good, of one chain"


def accepted(moves: dict[str, Floats]) -> dict[str, float]:
    """Share of proposals accepted, by kind of move."""
    return {
        kind: float(moves[f"{kind}_accepted"].sum() / max(moves[f"{kind}_proposed"].sum(), 1))
        for kind in KINDS
    }


def chain_agreement(lifetimes: Lifetimes, chains: int, draws: int) -> float:
    """The 99% quantile of the spread between chains of the probability of doubtful pairs."""
    if chains < 2:
        return 0.0
    n = lifetimes.records
    keys, shares, owners = [], [], []
    for chain in range(chains):
        own = lifetimes.select(np.flatnonzero(lifetimes.chain == chain))
        one, two, together = MatchingSets.of(own).pairs_of(LARGEST_COMPARED)
        keys.append(one * n + two)
        shares.append(together / draws)
        owners.append(np.full(len(one), chain))
    key, number = np.unique(np.concatenate(keys), return_inverse=True)
    table = np.zeros((len(key), chains))
    table[number, np.concatenate(owners)] = np.concatenate(shares)
    spread = table.max(axis=1) - table.min(axis=1)
    doubtful = (table.mean(axis=1) < 1) & (table.mean(axis=1) > 0.01)
    return float(np.quantile(spread[doubtful], 0.99)) if doubtful.any() else 0.0
