"""Log-linear models of overlap tables (Fienberg 1972; Bishop, Fienberg and Holland 1975).

The expected count of a set of files s is exp(sum over terms t within s of u_t): a term for each
file, and terms for files that depend on each other. The empty set has exp(u_0): the estimate of the
unseen. Its variance is f + f^2 var(u_0), by the delta method, f being the estimate.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from smered.layout import Bools, Floats, Int64s
from smered.population.tables import pairs_of

__all__ = ["Fitted", "Terms", "fit_design", "fit_terms", "hierarchical_models", "term_design"]

Terms = tuple[int, ...]  # sets of files with a parameter; the first is the empty set
ITERATIONS, TOLERANCE = 100, 1e-11
LOST = 40.0  # a parameter this large is on its way to infinity
LEAST_MEAN = 1e-13  # an expected count below this is on its way to nothing: no finite estimate
MOST_FOR_TRIPLES = 4  # files; with more, dependence is looked for between pairs only


@dataclass(frozen=True)
class Fitted:
    """One model fitted to many tables."""

    unseen: Floats  # (tables,) estimate; nan where the model has none
    variance: Floats  # (tables,)
    log_likelihood: Floats  # (tables,)
    deviance: Floats  # (tables,)
    parameters: int

    def bic(self, entities: Int64s) -> Floats:
        """Schwarz's criterion, with the number of entities as the size of the sample."""
        return self.parameters * np.log(entities) - 2 * self.log_likelihood


def hierarchical_models(files: int) -> Iterator[Terms]:
    """All models with a term for every file, and every term's parts; never with all files at once.

    For up to four files with dependence between any number of them, for more between pairs.

    >>> [len(list(hierarchical_models(k))) for k in (2, 3, 4, 5)]
    [1, 8, 113, 1024]
    """
    base = (0, *(1 << i for i in range(files)))
    pairs = pairs_of(files) if files > 2 else []
    triples = [a | b | c for a, b, c in combinations([1 << i for i in range(files)], 3)]
    largest = files - 1 if files <= MOST_FOR_TRIPLES else 2
    for count in range(len(pairs) + 1):
        for chosen in combinations(pairs, count):
            whole = [t for t in triples if all(p in chosen for p in pairs if p & t == p)]
            most = len(whole) if largest > 2 else 0
            for more in range(most + 1):
                for extra in combinations(whole, more):
                    yield (*base, *chosen, *extra)


def fit_terms(counts: Int64s, terms: Terms, cells: Sequence[int]) -> Fitted:
    """Fit a model to tables (tables, 2^k) by maximum likelihood, on the given cells."""
    return fit_design(counts[:, list(cells)], term_design(terms, cells))


def term_design(terms: Terms, cells: Sequence[int]) -> Floats:
    """Which terms lie within which cells (cells, terms)."""
    return np.array([[float(c & t == t) for t in terms] for c in cells])


def fit_design(counts: Int64s | Floats, design: Floats) -> Fitted:
    """Fit a Poisson model to counts (tables, cells); the first parameter is in all cells.

    A term whose cells are all empty has an estimate of minus infinity: they are expected to be
    empty, and the rest of the model goes on without them (Chan, Silverman and Vincent 2021). Where
    the likelihood grows as the expected number of unseen entities falls to nothing, that is the
    estimate. Tables whose parameters have no other finite or no single estimate get nan.
    """
    from scipy.special import gammaln, xlogy

    seen = counts.astype(float)
    alive = seen @ design > 0  # terms with a finite estimate
    dead_cells = (~alive).astype(float) @ design.T > 0
    linear, information, sound, told = newton(seen, design, alive, ~dead_cells)
    mean = np.where(dead_cells, 0.0, np.exp(np.clip(linear @ design.T, -LOST, LOST)))
    sound &= np.where(dead_cells, 1.0, mean).min(axis=1) > LEAST_MEAN
    none = ~alive[:, 0] | (told & ~sound & (linear[:, 0] < -LOST / 2))
    likelihood = (xlogy(seen, mean) - mean - gammaln(seen + 1)).sum(axis=1)
    best = (xlogy(seen, seen) - seen - gammaln(seen + 1)).sum(axis=1)
    unseen = np.where(sound, np.exp(np.where(sound, linear[:, 0], 0.0)), np.nan)
    safe = np.where(sound[:, None, None], information, np.eye(design.shape[1]))
    inverse = np.linalg.inv(safe)[:, 0, 0]
    variance = np.where(sound, unseen + unseen**2 * inverse, np.nan)
    sound &= unseen > LEAST_MEAN
    return Fitted(
        np.where(none, 0.0, np.where(sound, unseen, np.nan)),
        np.where(none, 0.0, np.where(sound, variance, np.nan)),
        np.where(sound | none, likelihood, -np.inf),
        2 * (best - likelihood),
        design.shape[1],
    )


def newton(
    seen: Floats, design: Floats, alive: Bools, used: Bools
) -> tuple[Floats, Floats, Bools, Bools]:
    """Newton's method for all tables at once.

    seen (tables, cells), design (cells, terms), alive (tables, terms), used (tables, cells).
    Returns parameters, information, whether it came to rest, and whether parameters can be told.
    """
    tables, terms = alive.shape
    outer = (design[:, :, None] * design[:, None, :]).reshape(len(design), -1)
    apart = (~alive)[:, :, None] * np.eye(terms)  # a term that is not estimated stays at 0
    both = alive[:, :, None] & alive[:, None, :]

    def information(mean: Floats) -> Floats:
        return np.where(both, (mean @ outer).reshape(tables, terms, terms), 0.0) + apart

    sound = np.linalg.matrix_rank(information(used.astype(float))) == terms
    mean = np.where(used, seen + 0.5, 0.0)
    working = np.where(used, np.log(seen + 0.5), 0.0)
    linear = np.zeros((tables, terms))
    going, told = sound.copy(), sound.copy()
    for iteration in range(ITERATIONS):
        rows = np.flatnonzero(going)
        if not len(rows):
            break
        weighted = information(mean)[rows]
        if iteration == 0:
            right = np.where(alive, (mean * working) @ design, 0.0)[rows]
            linear[rows] = np.linalg.solve(weighted, right[:, :, None])[:, :, 0]
        else:
            score = np.where(alive, (seen - mean) @ design, 0.0)[rows]
            try:
                step = np.linalg.solve(weighted, score[:, :, None])[:, :, 0]
            except np.linalg.LinAlgError:
                step = (np.linalg.pinv(weighted) @ score[:, :, None])[:, :, 0]
            largest = np.abs(step).max(axis=1)
            linear[rows] += step * np.minimum(1.0, 5.0 / np.maximum(largest, 1e-300))[:, None]
            done = largest < TOLERANCE
            lost = np.abs(linear[rows]).max(axis=1) > LOST
            sound[rows[lost]] = False
            going[rows[done | lost]] = False
        mean = np.where(used, np.exp(np.clip(linear @ design.T, -LOST, LOST)), 0.0)
    return linear, information(mean), sound & ~going, told
