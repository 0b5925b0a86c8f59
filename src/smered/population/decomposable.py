"""Bayesian model averaging over decomposable graphs (Madigan and York 1997, Biometrika 84).

Files are the nodes of a graph; those without an edge are independent given the others. With a
hyper-Dirichlet prior, delta for each set of files, the marginal likelihood of a graph and a
population is a product over cliques divided by one over separators, in closed form.
"""

from dataclasses import dataclass
from itertools import combinations

import numpy as np

from smered.layout import Floats, Int64s

__all__ = ["Graph", "GraphPosterior", "average_graphs", "decomposable_graphs"]


@dataclass(frozen=True)
class Graph:
    """A decomposable graph: its cliques and separators, each a set of files as a number."""

    cliques: tuple[int, ...]
    separators: tuple[int, ...]  # one fewer; 0 between parts that are not connected


@dataclass(frozen=True)
class GraphPosterior:
    """What each table says about graphs and the number of unseen entities."""

    probability: Floats  # (tables, grid) of each number of unseen entities
    graph_probability: Floats  # (tables, graphs)
    graph_unseen: Floats  # (tables, graphs) mean number of unseen entities


def decomposable_graphs(files: int, *, saturated: bool = False) -> tuple[Graph, ...]:
    """All decomposable graphs; the saturated one, which says nothing of the unseen, on request.

    >>> [len(decomposable_graphs(k, saturated=True)) for k in (2, 3, 4, 5)]
    [2, 8, 61, 822]
    """
    edges = list(combinations(range(files), 2))
    found = []
    for chosen in range(1 << len(edges)):
        if not saturated and chosen == (1 << len(edges)) - 1:
            continue
        near = [0] * files
        for i, (a, b) in enumerate(edges):
            if chosen >> i & 1:
                near[a] |= 1 << b
                near[b] |= 1 << a
        graph = decompose(near)
        if graph is not None:
            found.append(graph)
    return tuple(found)


def decompose(near: list[int]) -> Graph | None:
    """Cliques and separators by maximum cardinality search; nothing if a cycle has no chord.

    `near` has the neighbours of each node. Each node is joined to those before it that it is near:
    they must be a clique themselves.
    """
    files, seen, order = len(near), 0, []
    for _ in range(files):
        node = max((v for v in range(files) if not seen >> v & 1),
                   key=lambda v: (near[v] & seen).bit_count())  # fmt: skip
        order.append((node, near[node] & seen))
        seen |= 1 << node
    cliques: list[int] = []
    separators: list[int] = []
    for node, before in order:
        if any(before & ~near[v] & ~(1 << v) for v in range(files) if before >> v & 1):
            return None
        if cliques and before == cliques[-1]:
            cliques[-1] |= 1 << node
        else:
            if cliques:
                separators.append(before)
            cliques.append(before | 1 << node)
    return Graph(tuple(cliques), tuple(separators))


def average_graphs(
    counts: Int64s,
    graphs: tuple[Graph, ...],
    unseen: Int64s,
    *,
    delta: float,
    log_prior: Floats | None = None,
    width: Floats | None = None,
) -> GraphPosterior:
    """Posterior of graphs and of the number of unseen entities, for each table (tables, 2^k).

    `log_prior` (tables, grid) or (grid,) is that of the population, 1/N by default; all graphs are
    alike. `width` is how many numbers each point of the grid stands for.
    """
    from scipy.special import gammaln

    tables, cells = counts.shape
    files = cells.bit_length() - 1
    population = counts.sum(axis=1)[:, None] + unseen.astype(float)  # (tables, grid)
    prior = -np.log(np.maximum(population, 1)) if log_prior is None else log_prior
    common = gammaln(population + 1) - gammaln(unseen + 1.0) + prior
    common = common - gammaln(population + cells * delta)
    if width is not None:
        common = common + np.log(width)
    weights = np.zeros((len(graphs), cells))
    for row, graph in enumerate(graphs):
        for clique in graph.cliques:
            weights[row, clique] += 1
        for separator in graph.separators:
            weights[row, separator] -= 1
    found = GraphPosterior(np.empty((tables, len(unseen))), *np.empty((2, tables, len(graphs))))
    for table in range(tables):
        terms = np.zeros((cells, len(unseen)))
        for margin in range(cells):
            terms[margin] = clique_term(counts[table], margin, files, unseen, delta)
        joint = weights @ terms + common[table]  # (graphs, grid)
        joint = np.exp(joint - joint.max())
        joint /= joint.sum()
        found.probability[table] = joint.sum(axis=0)
        whole = found.graph_probability[table] = joint.sum(axis=1)
        found.graph_unseen[table] = joint @ unseen / np.maximum(whole, np.finfo(float).tiny)
    return found


def clique_term(counts: Int64s, margin: int, files: int, unseen: Int64s, delta: float) -> Floats:
    """Log marginal likelihood of the table of some files, without its normalising constant.

    Unseen entities are in none of the files, so that they fall into the first cell of each margin.
    """
    from scipy.special import gammaln

    cells = np.arange(len(counts))
    table = np.bincount(cells & margin, counts, minlength=len(counts))
    own = (cells & ~margin) == 0  # the sets within the margin
    share = delta * 2.0 ** (files - margin.bit_count())
    others = own & (cells > 0)
    fixed = gammaln(table[others] + share).sum() - own.sum() * gammaln(share)
    return gammaln(table[0] + unseen + share) + fixed
