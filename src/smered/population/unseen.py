"""Distributions of the number of entities that no file holds, one for each draw of the linkage."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from smered.layout import Floats, Int64s

__all__ = ["Gridded", "LogNormals", "Unseen", "quantile"]

MOST = 1e15  # populations above this are as good as endless


class Unseen(Protocol):
    """The number of unseen entities given each draw's linkage."""

    @property
    def moments(self) -> tuple[Floats, Floats]:
        """Estimate and variance of each draw (draws,)."""
        ...

    def cdf(self, unseen: Floats) -> Floats:
        """Probability of at most so many, for each draw (draws,)."""
        ...

    def sample(self, size: int, rng: np.random.Generator) -> Floats:
        """Random numbers of each draw (draws, size)."""
        ...


@dataclass(frozen=True)
class LogNormals:
    """Mixtures of log-normal distributions: one for each model that was fitted.

    An estimate f with variance v is taken as log-normal with median f and log variance
    log(1 + v / f^2), as in Chao (1987): the interval of the unseen stays above zero. An endless
    estimate is endless for certain.
    """

    weight: Floats  # (draws, models) adding up to 1
    median: Floats  # (draws, models)
    variance: Floats  # (draws, models) of the estimates

    @property
    def moments(self) -> tuple[Floats, Floats]:
        """Estimate and variance of each draw: within models and between them."""
        median = np.where(self.weight > 0, self.median, 0.0)
        with np.errstate(invalid="ignore"):
            mean = (self.weight * median).sum(axis=1)
            spread = np.where(self.weight > 0, self.variance + (median - mean[:, None]) ** 2, 0.0)
            return mean, (self.weight * spread).sum(axis=1)

    @property
    def _log_sd(self) -> Floats:
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.sqrt(np.log1p(self.variance / self.median**2))

    def cdf(self, unseen: Floats) -> Floats:
        """Probability of at most so many, for each draw."""
        from scipy.special import ndtr

        below = unseen[:, None]
        with np.errstate(divide="ignore", invalid="ignore"):
            z = (np.log(np.maximum(below, 0)) - np.log(self.median)) / self._log_sd
        certain = ~(np.isfinite(self.median) & (self.median > 0) & (self._log_sd > 0))
        at_most = np.where(certain, below >= self.median, ndtr(np.where(certain, 0.0, z)))
        return (self.weight * np.where(self.weight > 0, at_most, 0.0)).sum(axis=1)

    def sample(self, size: int, rng: np.random.Generator) -> Floats:
        """Random numbers of each draw (draws, size)."""
        edges = np.cumsum(self.weight, axis=1)
        edges[:, -1] = 1.0
        chosen = (rng.random((len(edges), size, 1)) >= edges[:, None, :]).sum(axis=2)
        median = np.take_along_axis(self.median, chosen, axis=1)
        log_sd = np.take_along_axis(self._log_sd, chosen, axis=1)
        normal = rng.standard_normal(chosen.shape)
        certain = ~(np.isfinite(median) & (median > 0))
        return np.where(certain, median, median * np.exp(np.where(certain, 0, log_sd) * normal))


@dataclass(frozen=True)
class Gridded:
    """Distributions over a grid of whole numbers; a point may stand for several around it."""

    points: Int64s  # (grid,) ascending
    probability: Floats  # (draws, grid) adding up to 1

    @property
    def moments(self) -> tuple[Floats, Floats]:
        """Mean and variance of each draw."""
        mean = self.probability @ self.points
        return mean, self.probability @ (self.points.astype(float) ** 2) - mean**2

    def cdf(self, unseen: Floats) -> Floats:
        """Probability of at most so many, for each draw; even among those of one point."""
        ends = edges_of(self.points)
        return np.array(
            [np.interp(x + 0.5, ends, row) for x, row in zip(unseen, self._below, strict=True)]
        )

    def sample(self, size: int, rng: np.random.Generator) -> Floats:
        """Random numbers of each draw (draws, size)."""
        ends = edges_of(self.points)
        uniform = rng.random((len(self.probability), size))
        found = [np.interp(u, row, ends) for u, row in zip(uniform, self._below, strict=True)]
        return np.maximum(np.array(found).round(), 0.0)

    @property
    def _below(self) -> Floats:
        """Probability below the edges of each point (draws, grid + 1)."""
        whole = np.cumsum(self.probability, axis=1)
        return np.hstack((np.zeros((len(whole), 1)), whole / whole[:, -1:]))


def edges_of(points: Int64s) -> Floats:
    """Where the numbers that ascending points stand for begin and end (grid + 1,).

    >>> edges_of(np.array([0, 1, 4])).tolist()
    [-0.5, 0.5, 2.5, 4.5]
    """
    middle = (points[1:] + points[:-1]) / 2
    return np.concatenate(([points[0] - 0.5], middle, [points[-1] + 0.5]))


def quantile(cdf: Callable[[float], float], share: float, least: float) -> float:
    """The number at which a distribution function reaches a share, to 12 digits."""
    low, high = least, max(2 * least, 1.0)
    while cdf(high) < share:
        low, high = high, 4 * high
        if high > MOST:
            return np.inf
    while high - low > 1e-12 * high:
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (middle, high) if cdf(middle) < share else (low, middle)
    return high
