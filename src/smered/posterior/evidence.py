"""What the values of a cluster say: weights of true values, and evidence that records belong."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from smered.layout import Bools, Floats, Int32s, Int64s
from smered.model import Model

if TYPE_CHECKING:
    from smered.posterior.posterior import Posterior

__all__ = ["FieldDraw", "Shown", "field_draw", "field_evidence", "set_evidence"]

LEAST_RATE = 1e-100  # a rate of nothing would divide by it
NO_CHANGE: Floats = np.empty(0)


class FieldDraw(NamedTuple):
    """One field's parameters in one draw, or on average."""

    theta: Floats  # (levels,)
    rates: Floats  # (rows,)
    closeness: float
    change: Floats = NO_CHANGE  # (steps,) rates at which the true value changes, if it does


@dataclass(frozen=True)
class Shown:
    """What clusters show in one field: a cell for each cluster and each level that may be true.

    These are the levels that its records show, and those near them. Cells are in order of their
    cluster, then of their level; a value counts in the cell of its level and in those near it.
    """

    owner: Int64s  # (cells,) cluster
    level: Int64s  # (cells,)
    shown: Bools  # (cells,) whether a record shows the level
    value: Int64s  # (entries,) number of the value, among all, in order of their cell
    kernel: Floats  # (entries,) kappa of the value and the cell's level
    same: Bools  # (entries,) whether the value is the cell's level
    start: Int64s  # (cells,) first entry of each cell
    first: Int64s  # (clusters that show a value,) first cell of each
    number: Int64s  # (cells,) number of the cell's cluster among those
    record: Int64s  # (values,)
    row: Int32s | Int64s  # (values,) row of distortion rates
    code: Int64s  # (values,) level
    cell: Int64s  # (values,) cell of each value's own level, or of one that it may be a copy of
    marginal: Floats | None  # (values,) probability of each value alone, where it is not theta

    @classmethod
    def of(cls, owner: Int64s, record: Int64s, column: int, model: Model) -> "Shown":
        """The values of a field, where cluster `owner` holds the record beside it."""
        part = model.coded[column]
        present = part.codes[record] >= 0
        owner, record = owner[present], record[present]
        code = part.codes[record].astype(np.int64)
        value = np.arange(len(record))
        level, kernel, same = code, np.zeros(len(record)), np.ones(len(record), np.bool_)
        marginal = None
        if part.similar is not None:
            near = part.near
            kernel, marginal = near.itself[code], near.marginal[code]
            counts = near.start[code + 1] - near.start[code]
            value = np.repeat(value, counts)
            within = np.arange(len(value)) - np.repeat(np.cumsum(counts) - counts, counts)
            entry = near.start[code[value]] + within
            if part.partial is not None:  # every level stands in its own list
                level, kernel = near.level[entry].astype(np.int64), near.kernel[entry]
                same = near.copies[entry]
            else:
                others = near.level[entry] != code[value]
                value = np.concatenate((np.arange(len(record)), value[others]))
                level = np.concatenate((code, near.level[entry][others].astype(np.int64)))
                kernel = np.concatenate((kernel, near.kernel[entry][others]))
                same = np.arange(len(value)) < len(record)
        levels = len(part.mu)
        key = owner[value] * levels + level
        order = np.argsort(key, kind="stable")
        cells, start, cell = np.unique(key[order], return_index=True, return_inverse=True)
        new = np.append(True, cells[1:] // levels != cells[:-1] // levels)[: len(cells)]
        by_file = model.rate_rows > 1
        rows = model.records.file[record] if by_file else np.zeros(len(record), np.int64)
        same = same[order]
        own = np.empty(len(record), np.int64)
        own[value[order][same]] = cell[same]
        return cls(
            owner=cells // levels,
            level=cells % levels,
            shown=np.bincount(cell[same], minlength=len(cells)) > 0,
            value=value[order],
            kernel=kernel[order],
            same=same,
            start=start,
            first=np.flatnonzero(new),
            number=np.cumsum(new) - 1,
            record=record,
            row=rows,
            code=code,
            cell=own,
            marginal=marginal,
        )

    def log_weights(self, draw: FieldDraw) -> tuple[Floats, Floats]:
        """Log weight of each cell's level being true, and the weight of all levels without one.

        A level weighs theta_v times its tally of rho (equations 3 and 16), every other its theta.
        """
        theta, rates, close, _ = draw
        odds = (1 - rates) / np.maximum(rates, LEAST_RATE)
        with np.errstate(over="ignore"):  # an endless rho is as certain as any
            copied = (odds[self.row] / self._alone(theta))[self.value]
            log_rho = np.log1p(
                (np.where(self.same, copied, 0.0) + close * self.kernel) / (1 - close)
            )
        log_weight = np.log(theta[self.level]) + np.add.reduceat(log_rho, self.start)
        unseen = np.maximum(1.0 - np.add.reduceat(theta[self.level], self.first), 0.0)
        return log_weight, unseen

    def true(self, draw: FieldDraw) -> Floats:
        """Probability of each cell's level being the true value of its cluster (equation 9)."""
        log_weight, unseen = self.log_weights(draw)
        top = np.maximum(np.maximum.reduceat(log_weight, self.first), 0.0)
        weight = np.exp(log_weight - top[self.number])
        whole = np.add.reduceat(weight, self.first) + unseen * np.exp(-top)
        return weight / whole[self.number]

    def distorted(self, draw: FieldDraw) -> Floats:
        """Probability of each value being distorted (equation 10), true values summed out."""
        theta, rates, close, _ = draw
        odds = (1 - rates) / np.maximum(rates, LEAST_RATE)
        again = self._alone(theta)[self.value] * (1 - close + close * self.kernel)
        with np.errstate(over="ignore"):
            copied = 1.0 / (1.0 + again / odds[self.row][self.value])
        cell = np.repeat(
            np.arange(len(self.start)), np.diff(np.append(self.start, len(self.value)))
        )
        right = np.where(self.same, self.true(draw)[cell] * copied, 0.0)
        copied_true = np.bincount(self.value, right, minlength=len(self.code))
        return np.asarray(1.0 - copied_true, np.float64)

    def _alone(self, theta: Floats) -> Floats:
        """The probability of each value in a record alone (values,)."""
        return theta[self.code] if self.marginal is None else self.marginal


def field_draw(posterior: "Posterior", column: int, chain: int, draw: int) -> FieldDraw:
    """The parameters of a field in one draw."""
    return FieldDraw(
        posterior.theta[posterior.model.coded[column].name][chain, draw],
        posterior.beta[chain, draw, :, column],
        float(posterior.closeness[chain, draw, column]),
        change_rates(posterior.change[chain, draw], column, posterior.model),
    )


def mean_draw(posterior: "Posterior", column: int) -> FieldDraw:
    """The posterior means of a field's parameters."""
    part = posterior.model.coded[column]
    theta = posterior.theta[part.name]
    return FieldDraw(
        theta.mean(axis=(0, 1)) if part.similar is None else theta[0, 0],
        posterior.beta[..., column].mean(axis=(0, 1)),
        float(posterior.closeness[..., column].mean()),
        change_rates(posterior.change.mean(axis=(0, 1)), column, posterior.model),
    )


def change_rates(change: Floats, column: int, model: Model) -> Floats:
    """The rates at which the true value of a field changes, of those of all fields that change."""
    if not model.changing[column]:
        return np.empty(0)
    found: Floats = change[:, int(model.changing[:column].sum())]
    return found


def set_evidence(posterior: "Posterior", owner: Int64s, record: Int64s, sets: int) -> Floats:
    """Evidence of sets (sets, p) at posterior means; set `owner` holds the record beside it."""
    means = [mean_draw(posterior, column) for column in range(len(posterior.model.coded))]
    return field_evidence(owner, record, sets, posterior.model, means)


def field_evidence(
    owner: Int64s, record: Int64s, clusters: int, model: Model, draws: Sequence[FieldDraw]
) -> Floats:
    """Log odds that each field gives to each cluster being one entity (clusters, p).

    The logarithm of the probability of what its records show if they are one entity, over that if
    each is an entity of its own. Nothing (0) where at most one record has a value, minus infinity
    where they differ in a field that is never distorted. `draws`: parameters of each field.
    """
    found = np.zeros((clusters, len(model.coded)))
    for column in range(len(model.coded)):
        if model.changing[column]:
            stretches = Stretches.of(owner, record, clusters, column, model, draws[column])
            found[:, column] = stretches.reach[-1]
        else:
            still = still_evidence(owner, record, clusters, column, model, draws[column])
            found[:, column] = still
    return found


def still_evidence(
    owner: Int64s, record: Int64s, clusters: int, column: int, model: Model, draw: FieldDraw
) -> Floats:
    """The same in one field, whose true value is the same for all records of a cluster."""
    found, part = np.zeros(clusters), model.coded[column]
    shown = Shown.of(owner, record, column, model)
    if not len(shown.owner):
        return found
    who = shown.owner[shown.first]
    if part.exact:
        log_theta = np.log(draw.theta[shown.level])
        counts = np.diff(np.append(shown.start, len(shown.value)))
        one = np.diff(np.append(shown.first, len(shown.owner))) == 1
        told = -(counts[shown.first] - 1) * log_theta[shown.first]
        found[who] = np.where(one, 0.0 if model.given[column] else told, -np.inf)
        return found
    log_weight, unseen = shown.log_weights(draw)
    top = np.maximum(np.maximum.reduceat(log_weight, shown.first), 0.0)
    total = np.add.reduceat(np.exp(log_weight - top[shown.number]), shown.first)
    far = np.maximum(draw.rates * (1 - draw.closeness), LEAST_RATE)
    log_far = np.log(far)[shown.row]
    distorted = np.bincount(shown.number[shown.cell], log_far, minlength=len(who))
    found[who] = distorted + top + np.log(total + unseen * np.exp(-top))
    return found


class Stretches(NamedTuple):
    """Clusters in a field whose true value changes, cut between times in all ways (equation 28)."""

    reach: Floats  # (times + 1, clusters) log weight of the records of the first times
    last: Floats  # (times, times + 1, clusters) the same, where the last stretch begins at a time

    @classmethod
    def of(
        cls,
        owner: Int64s,
        record: Int64s,
        clusters: int,
        column: int,
        model: Model,
        draw: FieldDraw,
    ) -> "Stretches":
        """Weigh the stretches of all clusters."""
        time = model.time[model.records.file[record]]
        times = len(draw.change) + 1
        with np.errstate(divide="ignore"):
            cut, kept = np.log(draw.change), np.log1p(-draw.change)
        reach = np.full((times + 1, clusters), -np.inf)
        last = np.full((times, times + 1, clusters), -np.inf)
        reach[0] = 0.0
        for end in range(1, times + 1):
            for begin in range(end):
                own = (time >= begin) & (time < end)
                weight = still_evidence(owner[own], record[own], clusters, column, model, draw)
                before = reach[begin] + (cut[begin - 1] if begin else 0.0)
                last[begin, end] = before + kept[begin : end - 1].sum() + weight
                reach[end] = np.logaddexp(reach[end], last[begin, end])
        return cls(reach, last)
