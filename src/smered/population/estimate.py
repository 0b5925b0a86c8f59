"""The size of a population, with and without the doubt about the linkage."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from smered.diagnostics import mcse
from smered.errors import ConfigError
from smered.layout import Floats, Int64s
from smered.population.methods import METHODS, MOST_GRAPHS, MOST_LOGLINEAR, Found, Weighed
from smered.population.tables import choose_files, overlap_array
from smered.population.unseen import quantile
from smered.propagate.pool import check_level, shares
from smered.suggest import suggest

if TYPE_CHECKING:
    from smered.posterior.estimate import Estimate, Loss
    from smered.posterior.posterior import Posterior

__all__ = ["METHODS", "Population", "Size", "default_methods", "estimate_population"]

SAMPLES = 200  # of each draw and stratum, where strata are added up


@dataclass(frozen=True)
class Size:
    """The size of a population as one method estimates it.

    The estimate is the median; `sd` combines the variance within draws of the linkage and between
    them, `linkage_share` is the share of the latter, `mcse` the Monte Carlo error of the mean over
    draws. Endless where the data hold no evidence of an upper bound.
    """

    method: str
    stratum: Any  # of the field; None is all of them
    certain: bool  # whether the linkage was taken to be the estimate
    observed: float  # entities seen, mean over draws
    estimate: float
    sd: float
    lower: float
    upper: float
    linkage_share: float
    mcse: float
    models: tuple[Weighed, ...] = ()


@dataclass(frozen=True)
class Population:
    """How many entities there are, by several methods, with and without doubt about the linkage.

    Rows of a method and stratum stand beside each other: first averaged over draws of the linkage,
    then given the estimated linkage alone.
    """

    files: tuple[str, ...]
    by: str | None
    level: float
    draws: int  # of the linkage
    sizes: tuple[Size, ...]

    def __getitem__(self, method: str) -> Size:
        """A method's answer for the whole population, averaged over draws of the linkage."""
        for size in self.sizes:
            if size.method == method and size.stratum is None and not size.certain:
                return size
        found = list(dict.fromkeys(size.method for size in self.sizes))
        raise ConfigError(f"no method {method!r}; {suggest(method, found)}")

    def table(self) -> pa.Table:
        """One row per method, stratum and way of treating the linkage."""
        columns = {
            "method": [size.method for size in self.sizes],
            "stratum": [None if size.stratum is None else str(size.stratum) for size in self.sizes],
            "linkage": ["estimate" if size.certain else "averaged" for size in self.sizes],
        }
        numbers = ("observed", "estimate", "sd", "lower", "upper", "linkage_share", "mcse")
        more = {name: [getattr(size, name) for size in self.sizes] for name in numbers}
        kinds = {"method": pa.string(), "stratum": pa.string(), "linkage": pa.string()}
        return pa.table({name: pa.array(values, kinds.get(name, pa.float64()))
                         for name, values in (columns | more).items()})  # fmt: skip

    def to_dict(self) -> dict[str, Any]:
        """Everything as values that JSON holds; null for what is endless or not known."""
        return {
            "files": list(self.files),
            "by": self.by,
            "level": self.level,
            "draws": self.draws,
            "sizes": [
                {name: finite(value) for name, value in row.items()}
                | {"models": [
                    {"name": m.name, "weight": m.weight, "population": finite(m.population)}
                    for m in size.models
                ]}
                for row, size in zip(self.table().to_pylist(), self.sizes, strict=True)
            ],
        }  # fmt: skip


def finite(value: Any) -> Any:
    """The value, or nothing where it is a number that JSON does not know."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def default_methods(files: int) -> list[str]:
    """The methods that so many files allow."""
    found = ["chapman"] if files == 2 else []
    found += ["loglinear"] if 2 < files <= MOST_LOGLINEAR else []
    found += ["chao"] if files > 2 else []
    return found + (["graphs"] if files <= MOST_GRAPHS else [])


def estimate_population(
    posterior: "Posterior",
    methods: str | Sequence[str] | None,
    files: Sequence[str] | None,
    by: str | None,
    draws: int,
    loss: "Loss",
    level: float,
) -> Population:
    """Estimate the size of the population by some methods; see `Posterior.population`."""
    check_level(level)
    if draws < 1:
        raise ConfigError(f"draws = {draws} must be at least 1")
    chosen = choose_files(files, posterior.records.files)
    named = [methods] if isinstance(methods, str) else methods
    names = default_methods(len(chosen)) if named is None else list(dict.fromkeys(named))
    for name in names:
        if name not in METHODS:
            raise ConfigError(f"no method {name!r}; {suggest(name, list(METHODS))}")
    per_chain = -(-draws // posterior.chains)
    averaged = tables_of_draws(posterior, chosen, by, per_chain)
    certain = tables_of_estimate(posterior, posterior.estimate(loss), chosen, by)
    sizes = []
    for name in names:
        both = [
            sizes_of(name, chosen, tables, posterior.chains if tables is averaged else 0, level)
            for tables in (averaged, certain)
        ]
        strata = list(dict.fromkeys(size.stratum for found in both for size in found))
        sizes += [size for each in strata for found in both for size in found
                  if size.stratum == each]  # fmt: skip
    count = next(iter(averaged.values())).shape[0]
    return Population(chosen, by, level, count, tuple(sizes))


def tables_of_draws(
    posterior: "Posterior", files: Sequence[str], by: str | None, per_chain: int
) -> dict[Any, Int64s]:
    """Overlap tables (draws, 2^k) of evenly spaced draws, chain after chain, by stratum."""
    found = posterior.overlap(by, per_chain)
    counts = found.draws
    if by is None:
        counts = counts[:, :, posterior._spaced(per_chain)]
    flat = counts.reshape(len(counts), -1)
    if by is None:
        return {None: overlap_array(found.kinds, flat, files)}
    return {
        stratum: overlap_array([kind[1] for kind in kinds], flat[rows], files)
        for stratum, rows, kinds in strata_of(found.kinds)
    }


def strata_of(kinds: Sequence[tuple[Any, Any]]) -> list[tuple[Any, list[int], list[Any]]]:
    """Each stratum with the rows and kinds that belong to it."""
    strata = dict.fromkeys(kind[0] for kind in kinds)
    own = {s: [i for i, kind in enumerate(kinds) if kind[0] == s] for s in strata}
    return [(s, rows, [kinds[i] for i in rows]) for s, rows in own.items()]


def tables_of_estimate(
    posterior: "Posterior", estimate: "Estimate", files: Sequence[str], by: str | None
) -> dict[Any, Int64s]:
    """The overlap table (1, 2^k) of an estimate, by stratum."""
    from smered.posterior.attributes import fill_hidden
    from smered.posterior.linked import true_levels

    records = posterior.records
    bits = np.array([1 << files.index(f) if f in files else 0 for f in records.files])
    cell = np.zeros(len(estimate), np.int64)
    np.bitwise_or.at(cell, estimate.entity, bits[records.file])
    level = np.zeros(len(estimate), np.int64)
    levels: list[Any] = [None]
    if by is not None:
        column = [part.name for part in posterior.model.coded].index(by)
        levels = posterior.model.coded[column].levels.to_pylist()
        true = np.empty((len(estimate), len(posterior.model.coded)), np.int64)
        true[estimate.entity] = true_levels(posterior, estimate)
        theta = posterior.theta[by].mean(axis=(0, 1))
        classes = posterior.classes(0, posterior.draws - 1)
        rng = np.random.default_rng(0)
        level = fill_hidden(true, column, posterior.model, theta, classes, rng)
    size = 1 << len(files)
    counts = np.bincount(level * size + cell, minlength=len(levels) * size).reshape(-1, size)
    counts[:, 0] = 0
    seen = np.flatnonzero(counts.any(axis=1)) if by is not None else np.array([0])
    return {levels[i]: counts[[i]] for i in seen.tolist()}


def sizes_of(
    method: str, files: Sequence[str], tables: dict[Any, Int64s], chains: int, level: float
) -> list[Size]:
    """A method's answer for each stratum and for all of them together; no chains: one linkage."""
    found = {stratum: METHODS[method](counts, files) for stratum, counts in tables.items()}
    if list(tables) == [None]:
        return [summary(method, None, tables[None], found[None], chains, level)]
    strata = [summary(method, s, tables[s], found[s], chains, level) for s in tables]
    return [total(method, tables, found, chains, level), *strata]


def summary(
    method: str, stratum: Any, counts: Int64s, found: Found, chains: int, level: float
) -> Size:
    """One distribution for all draws: the mixture of theirs, its quantiles to the last digit."""
    seen = counts.sum(axis=1).astype(float)

    def at_most(population: float) -> float:
        return float(found.unseen.cdf(population - seen).mean())

    cuts = (0.5, (1 - level) / 2, (1 + level) / 2)
    middle, lower, upper = (quantile(at_most, cut, float(seen.min())) for cut in cuts)
    mean, variance = found.unseen.moments
    spread = spread_of(seen + mean, variance, chains)
    return Size(method, stratum, chains == 0, float(seen.mean()), middle, spread[0], lower, upper,
                *spread[1:], found.models)  # fmt: skip


def total(
    method: str, tables: dict[Any, Int64s], found: dict[Any, Found], chains: int, level: float
) -> Size:
    """All strata together: sums of random numbers of each, the same whenever it is asked."""
    rng = np.random.default_rng(0)
    seen = np.sum([counts.sum(axis=1) for counts in tables.values()], axis=0).astype(float)
    samples = SAMPLES if chains else SAMPLES * SAMPLES
    sums = seen[:, None] + np.sum([f.unseen.sample(samples, rng) for f in found.values()], axis=0)
    middle, lower, upper = np.quantile(
        sums, [0.5, (1 - level) / 2, (1 + level) / 2], method="higher"
    ).tolist()
    moments = [each.unseen.moments for each in found.values()]
    mean, variance = (np.sum(part, axis=0) for part in zip(*moments, strict=True))
    spread = spread_of(seen + mean, variance, chains)
    return Size(method, None, chains == 0, float(seen.mean()), middle, spread[0], lower, upper,
                *spread[1:])  # fmt: skip


def spread_of(mean: Floats, variance: Floats, chains: int) -> tuple[float, float, float]:
    """Standard deviation, share of the variance between draws, and Monte Carlo error."""
    if not np.isfinite(mean).all():
        return math.inf, math.nan, math.nan
    within = float(variance.mean())
    between = float(mean.var(ddof=1)) if len(mean) > 1 else 0.0
    share = shares(np.array([between]), np.array([within + between]))[0]
    if chains and len(mean) == 1:
        share = math.nan  # one draw cannot tell
    error = mcse(mean.reshape(chains, -1)) if chains else 0.0
    return math.sqrt(within + between), float(share), float(error)
