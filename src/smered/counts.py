"""The counts from which level probabilities and distortion rates are drawn."""

from typing import NamedTuple

import numpy as np

from smered.layout import Int64s, Parameters, Statistics
from smered.model import Model

__all__ = ["Counts", "draw_counts"]


class Counts(NamedTuple):
    """Sufficient statistics of the true values and distortions of a linkage (equation 11)."""

    level_counts: Int64s  # (T,)
    distorted: Int64s  # (R, p)
    telling: Int64s  # (R, p)
    slips: Int64s  # (R, p)


def draw_counts(
    statistics: Statistics, parameters: Parameters, model: Model, rng: np.random.Generator
) -> Counts:
    """Complete the counts of a sweep by those of the clusters that agree in a field.

    All clusters that show a level s times and no other are alike: how many of them have another
    true value, and how many of the others' values are distorted nevertheless, are binomial
    (equation 12). With several rows of rates the kernels draw every cluster by itself.
    """
    counts = Counts(*(found.copy() for found in statistics[:4]))
    shows, level = np.nonzero(statistics.agreed)
    if not len(shows):
        return counts
    clusters = statistics.agreed[shows, level]
    field = np.searchsorted(model.field_start, level, side="right") - 1
    theta = parameters.theta[level]
    rho = 1.0 + parameters.odds[0, field] * parameters.inverse_theta[level]
    with np.errstate(over="ignore"):
        weight = theta * rho**shows
    others = np.maximum(1.0 - theta, 0.0)
    elsewhere = rng.binomial(clusters, others / (weight + others))
    hidden = rng.binomial((clusters - elsewhere) * shows, 1.0 / rho)  # distorted to the true value
    distorted = hidden + elsewhere * shows
    np.add.at(counts.level_counts, level, clusters - elsewhere + distorted)
    np.add.at(counts.distorted[0], field, distorted)
    np.add.at(counts.telling[0], field, clusters * shows)
    for at in np.flatnonzero(elsewhere):
        start, end = model.field_start[field[at] : field[at] + 2]
        weights = parameters.theta[start:end].copy()
        weights[level[at] - start] = 0.0
        counts.level_counts[start:end] += rng.multinomial(elsewhere[at], weights / weights.sum())
    return counts
