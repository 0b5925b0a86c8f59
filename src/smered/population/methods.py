"""Ways to estimate how many entities no file holds, each for many overlap tables at once.

A table (2^k,) counts entities by set of files; see `smered.population.tables`. All methods take
tables (draws, 2^k) and return a distribution of the unseen for each, and what the models weighed.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from smered.errors import ConfigError
from smered.layout import Floats, Int64s
from smered.population.decomposable import average_graphs, decomposable_graphs
from smered.population.loglinear import fit_design, fit_terms, hierarchical_models, term_design
from smered.population.tables import name_terms, sizes
from smered.population.unseen import Gridded, LogNormals, Unseen, edges_of

__all__ = ["METHODS", "Found", "Weighed", "chao", "chapman", "graphs", "loglinear"]

MOST_LOGLINEAR = MOST_GRAPHS = 5  # files
FARTHEST = 100  # times the entities seen: larger populations are not considered by `graphs`
NEXT_TO_NOTHING = 1e-6  # entities
COARSE, FINE = 1000, 4000  # points of the number of unseen entities, about
NEGLIGIBLE = 1e-9  # of the probability, at either end of the finer points


@dataclass(frozen=True)
class Weighed:
    """A model, its weight averaged over draws, and its mean estimate of the population."""

    name: str
    weight: float
    population: float


@dataclass(frozen=True)
class Found:
    """What a method says about tables."""

    unseen: Unseen
    models: tuple[Weighed, ...] = ()


def single(median: Floats, variance: Floats) -> LogNormals:
    """One model's estimates, for each draw."""
    return LogNormals(np.ones((len(median), 1)), median[:, None], variance[:, None])


def chapman(counts: Int64s, files: Sequence[str]) -> Found:
    """Chapman's estimate from two files (Seber 1970 for its variance).

    N + 1 = (n1 + 1) (n2 + 1) / (m + 1), m in both: nearly unbiased if the files are independent
    and every entity is as likely as another to be in a file; finite also if m = 0.
    """
    if len(files) != 2:
        raise ConfigError(f"chapman needs two files, not {len(files)}; choose two of them")
    one, two, both = (counts[:, cell].astype(float) for cell in (1, 2, 3))
    first, second = one + both + 1, two + both + 1
    unseen = one * two / (both + 1)
    variance = first * second * one * two / ((both + 1) ** 2 * (both + 2))
    return Found(single(unseen, variance))


def loglinear(counts: Int64s, files: Sequence[str]) -> Found:
    """Log-linear models with dependence between files, averaged with weights exp(-BIC / 2).

    A model without a finite estimate weighs nothing. A table to which no model can be fitted has
    endlessly many unseen entities: no two files share one, and nothing speaks against any number.
    """
    if len(files) > MOST_LOGLINEAR:
        raise ConfigError(
            f"loglinear takes up to {MOST_LOGLINEAR} files, not {len(files)}; choose some of them"
        )
    models = list(hierarchical_models(len(files)))
    cells = range(1, counts.shape[1])
    distinct, row = np.unique(counts, axis=0, return_inverse=True)
    entities = np.maximum(distinct.sum(axis=1), 1)
    fits = [fit_terms(distinct, terms, cells) for terms in models]
    unseen = np.stack([fit.unseen for fit in fits], axis=1)
    variance = np.stack([fit.variance for fit in fits], axis=1)
    bic = np.stack([fit.bic(entities) for fit in fits], axis=1)
    bic = np.where(np.isnan(unseen), np.inf, bic)
    hopeless = np.isinf(bic).all(axis=1)
    bic[hopeless] = 0.0
    weight = np.exp(-(bic - bic.min(axis=1, keepdims=True)) / 2)
    weight /= weight.sum(axis=1, keepdims=True)
    unseen[hopeless], variance[hopeless] = np.inf, 0.0
    row = row.ravel()
    whole = LogNormals(weight[row], unseen[row], variance[row])
    names = [name_terms(terms, files) for terms in models]
    population = counts.sum(axis=1)[:, None] + whole.median
    return Found(whole, weigh(names, whole.weight, population))


def weigh(names: Sequence[str], weight: Floats, population: Floats) -> tuple[Weighed, ...]:
    """Models with their mean weights and estimates (draws, models), the weightiest first."""
    mean = weight.mean(axis=0)
    order = np.argsort(-mean, kind="stable")[: np.count_nonzero(mean)]
    weighed = []
    for i in order.tolist():
        own = weight[:, i] > 0
        estimate = np.average(population[own, i], weights=weight[own, i])
        weighed.append(Weighed(names[i], float(mean[i]), float(estimate)))
    return tuple(weighed)


def chao(counts: Int64s, files: Sequence[str]) -> Found:
    """Chao's lower bound, for files of different sizes (Rivest and Baillargeon 2007).

    Entities that are easy to find hide those that are not, so that their number is at least what
    those in one file and in two files tell; files may differ in size. It is a log-linear model with
    a term for every file, and one for every number of files above two. With files of equal size it
    is Chao's (k - 1) / (2 k) f1^2 / f2 (1987), with two files the ratio estimate n1 n2 / m. Where
    no entity is in just two files, the bound is endless. Where the likelihood is largest with some
    parameters endless, as for a file that holds only entities of three files, the bound is its
    limit as empty cells go to nothing.
    """
    cells = range(1, counts.shape[1])
    size = sizes(len(files))[1:, None]
    many = (size == np.arange(3, len(files) + 1)).astype(float)
    alone = term_design((0, *(1 << i for i in range(len(files)))), cells)
    design = np.hstack((alone, many))
    fit = fit_design(counts[:, 1:], design)
    unseen, variance = fit.unseen.copy(), fit.variance.copy()
    pairs = counts[:, 1:] @ (size[:, 0] == 2)
    edge = np.flatnonzero(np.isnan(unseen) & (pairs > 0))
    limit = fit_design(np.maximum(counts[edge, 1:], NEXT_TO_NOTHING), design)
    unseen[edge], variance[edge] = limit.unseen, limit.variance
    none = np.isnan(unseen)
    return Found(single(np.where(none, np.inf, unseen), np.where(none, 0.0, variance)))


def graphs(counts: Int64s, files: Sequence[str], delta: float | None = None) -> Found:
    """Bayesian model averaging over decomposable graphs (Madigan and York 1997).

    The population has prior 1/N, up to a hundred times the entities seen; graphs are alike, without
    the saturated one; `delta` for each set of files is 2^-k by default, one entity in all. Where no
    two files share anybody, it is that prior that bounds the population, not the data. Nobody is
    missing where nobody was seen.
    """
    if len(files) > MOST_GRAPHS:
        raise ConfigError(
            f"graphs takes up to {MOST_GRAPHS} files, not {len(files)}; choose some of them"
        )
    distinct, row = np.unique(counts, axis=0, return_inverse=True)
    every = decomposable_graphs(len(files))
    share = 2.0 ** -len(files) if delta is None else delta
    points = coarse(FARTHEST * int(counts.sum(axis=1).max()))
    first = average_graphs(distinct, every, points, delta=share, width=np.diff(edges_of(points)))
    points = finer(points, first.probability)
    found = average_graphs(distinct, every, points, delta=share, width=np.diff(edges_of(points)))
    nobody = distinct.sum(axis=1) == 0
    found.probability[nobody] = points == 0
    found.graph_unseen[nobody] = 0.0
    row = row.ravel()
    names = [name_terms(graph.cliques, files) for graph in every]
    population = counts.sum(axis=1)[:, None] + found.graph_unseen[row]
    models = weigh(names, found.graph_probability[row], population)
    return Found(Gridded(points, found.probability[row]), models)


def coarse(largest: int) -> Int64s:
    """Numbers from 0 to the largest: all small ones, then ever fewer."""
    return np.unique(
        np.concatenate((np.arange(COARSE // 4), np.geomspace(1, max(largest, 2), COARSE)))
        .round().astype(np.int64)
    )  # fmt: skip


def finer(points: Int64s, probability: Floats) -> Int64s:
    """The same numbers, and many more where any of the distributions over them has its mass."""
    below = np.cumsum(probability, axis=1)
    inside = np.flatnonzero(((below > NEGLIGIBLE) & (below < 1 - NEGLIGIBLE)).any(axis=0))
    if not len(inside):
        return points
    first, last = points[max(inside[0] - 1, 0)], points[min(inside[-1] + 2, len(points) - 1)]
    return np.union1d(points, np.linspace(first, last, FINE).round().astype(np.int64))


METHODS: Mapping[str, Callable[[Int64s, Sequence[str]], Found]] = {
    "chapman": chapman,
    "loglinear": loglinear,
    "chao": chao,
    "graphs": graphs,
}
