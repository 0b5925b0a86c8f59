"""What the values of a cluster say: weights of true values, and evidence that records belong."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from smered.layout import Floats, Int32s, Int64s
from smered.model import Model

if TYPE_CHECKING:
    from smered.posterior.posterior import Posterior

__all__ = ["Shown", "field_evidence", "set_evidence"]

LEAST_RATE = 1e-100  # a rate of nothing would divide by it


@dataclass(frozen=True)
class Shown:
    """The values that clusters show in one field, one cell for each cluster and level.

    Cells are in order of their cluster, then of their level.
    """

    owner: Int64s  # (cells,) cluster
    level: Int64s  # (cells,)
    record: Int64s  # (values,) values in order of their cell
    row: Int32s | Int64s  # (values,) row of distortion rates
    cell: Int64s  # (values,)
    start: Int64s  # (cells,) first value of each cell
    first: Int64s  # (clusters that show a value,) first cell of each
    number: Int64s  # (cells,) number of the cell's cluster among those

    @classmethod
    def of(cls, owner: Int64s, record: Int64s, column: int, model: Model) -> "Shown":
        """The values of a field, where cluster `owner` holds the record beside it."""
        codes = model.coded[column].codes[record]
        shown = codes >= 0
        levels = len(model.coded[column].mu)
        key = owner[shown] * levels + codes[shown]
        order = np.argsort(key, kind="stable")
        cells, start, cell = np.unique(key[order], return_index=True, return_inverse=True)
        new = np.append(True, cells[1:] // levels != cells[:-1] // levels)[: len(cells)]
        by_file = model.rate_rows > 1
        rows = model.records.file[record] if by_file else np.zeros(len(record), np.int64)
        return cls(
            owner=cells // levels,
            level=cells % levels,
            record=record[shown][order],
            row=rows[shown][order],
            cell=cell,
            start=start,
            first=np.flatnonzero(new),
            number=np.cumsum(new) - 1,
        )

    def log_weights(self, theta: Floats, rates: Floats) -> tuple[Floats, Floats]:
        """Log weight of each cell's level being true, and the weight of all levels not shown.

        A level weighs theta_v times its tally of rho (equation 3), every other one its theta.
        """
        odds = (1 - rates) / np.maximum(rates, LEAST_RATE)
        with np.errstate(over="ignore"):  # an endless rho is as certain as any
            log_rho = np.log1p(odds[self.row] / theta[self.level[self.cell]])
        log_weight = np.log(theta[self.level]) + np.add.reduceat(log_rho, self.start)
        unseen = np.maximum(1.0 - np.add.reduceat(theta[self.level], self.first), 0.0)
        return log_weight, unseen

    def true(self, theta: Floats, rates: Floats) -> Floats:
        """Probability of each cell's level being the true value of its cluster (equation 9)."""
        log_weight, unseen = self.log_weights(theta, rates)
        top = np.maximum(np.maximum.reduceat(log_weight, self.first), 0.0)
        weight = np.exp(log_weight - top[self.number])
        whole = np.add.reduceat(weight, self.first) + unseen * np.exp(-top)
        return weight / whole[self.number]

    def distorted(self, theta: Floats, rates: Floats) -> Floats:
        """Probability of each value being distorted (equation 10), true values summed out."""
        odds = (1 - rates) / np.maximum(rates, LEAST_RATE)
        with np.errstate(over="ignore"):
            copied = 1.0 / (1.0 + theta[self.level[self.cell]] / odds[self.row])
        return 1.0 - self.true(theta, rates)[self.cell] * copied


def set_evidence(posterior: "Posterior", owner: Int64s, record: Int64s, sets: int) -> Floats:
    """Evidence of sets (sets, p) at posterior means; set `owner` holds the record beside it."""
    theta = np.concatenate([draws.mean(axis=(0, 1)) for draws in posterior.theta.values()])
    beta = posterior.beta.mean(axis=(0, 1))
    return field_evidence(owner, record, sets, posterior.model, theta, beta)


def field_evidence(
    owner: Int64s, record: Int64s, clusters: int, model: Model, theta: Floats, beta: Floats
) -> Floats:
    """Log odds that each field gives to each cluster being one entity (clusters, p).

    The logarithm of the probability of what its records show if they are one entity, over that if
    each is an entity of its own. Nothing (0) where at most one record has a value, minus infinity
    where they differ in a field that is never distorted. theta (T,), beta (rows, p).
    """
    found = np.zeros((clusters, len(model.coded)))
    for column, part in enumerate(model.coded):
        shown = Shown.of(owner, record, column, model)
        if not len(shown.owner):
            continue
        own = theta[model.field_start[column] : model.field_start[column + 1]]
        who = shown.owner[shown.first]
        if part.exact:
            log_theta = np.log(own[shown.level])
            counts = np.diff(np.append(shown.start, len(shown.cell)))
            one = np.diff(np.append(shown.first, len(shown.owner))) == 1
            found[who, column] = np.where(
                one, -(counts[shown.first] - 1) * log_theta[shown.first], -np.inf
            )
            continue
        rates = beta[:, column]
        log_weight, unseen = shown.log_weights(own, rates)
        top = np.maximum(np.maximum.reduceat(log_weight, shown.first), 0.0)
        total = np.add.reduceat(np.exp(log_weight - top[shown.number]), shown.first)
        log_rates = np.log(np.maximum(rates, LEAST_RATE))[shown.row]
        distorted = np.bincount(shown.number[shown.cell], log_rates, minlength=len(who))
        found[who, column] = distorted + top + np.log(total + unseen * np.exp(-top))
    return found
