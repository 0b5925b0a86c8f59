"""Many answers made one: Rubin's rules for estimates, mixing for posterior draws.

Both split the variance in two: what remains if the linkage were known (within), and what the
linkage adds (between). Rubin (1987), Multiple imputation for nonresponse in surveys; Barnard and
Rubin (1999), Small-sample degrees of freedom with multiple imputation, Biometrika 86.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from smered.diagnostics import mcse
from smered.errors import ConfigError
from smered.layout import Floats, Int64s
from smered.propagate.fit import Fit, Sample

__all__ = ["Pooled", "mix", "pool"]

ROUNDING = 1e-14  # of a variance


@dataclass(frozen=True)
class Pooled:
    """Estimates that include the doubt about the linkage.

    `linkage_share` is the share of each variance that is due to the linkage; `mcse` the Monte Carlo
    standard error of each estimate, which more draws would reduce.
    """

    names: tuple[str, ...]
    estimate: Floats  # (p,)
    covariance: Floats  # (p, p) total
    df: Floats  # (p,) infinite where draws were mixed
    lower: Floats
    upper: Floats
    linkage_share: Floats
    mcse: Floats
    level: float

    @property
    def std_error(self) -> Floats:
        """Standard errors (p,)."""
        return np.sqrt(np.diag(self.covariance))

    def table(self) -> pa.Table:
        """One row per estimate."""
        return pa.table(
            {
                "term": pa.array(self.names),
                "estimate": self.estimate,
                "std_error": self.std_error,
                "lower": self.lower,
                "upper": self.upper,
                "df": self.df,
                "linkage_share": self.linkage_share,
                "mcse": self.mcse,
            }
        )


def pool(fits: Sequence[Fit], level: float = 0.95, chain: Int64s | None = None) -> Pooled:
    """Pool fits of several data sets by Rubin's rules.

    With m fits, Q the mean estimate, W the mean covariance and B the covariance of the estimates,
    the total covariance is T = W + (1 + 1/m) B, and the share of variance due to the linkage is
    l = (1 + 1/m) B / T. Intervals are Student's, with Barnard and Rubin's degrees of freedom
    1 / (1/a + 1/b), where a = (m - 1) / l^2, b = (1 - l) v (v + 1) / (v + 3), and v are those of
    the fits; with v itself where the estimates do not differ. Fits are taken to be independent,
    unless `chain` tells which chain of draws each is from: m is then the effective number of draws,
    the least of any estimate, at most as many as there are.

    >>> found = pool([Fit({"x": 1.0}, [4.0]), Fit({"x": 3.0}, [2.0])])
    >>> found.estimate.item(), found.covariance.item(), found.linkage_share.item(), found.df.item()
    (2.0, 6.0, 0.5, 4.0)
    """
    from scipy.special import stdtrit

    check_level(level)
    m = len(fits)
    estimates = np.array([fit.estimate for fit in fits])
    within = np.mean([fit.covariance for fit in fits], axis=0)
    error = monte_carlo_error(estimates, chain)
    between = covariance_of(estimates)
    worth = float(m)
    if chain is not None:
        effective = np.diag(between)[error > 0] / error[error > 0] ** 2
        worth = max(min(worth, effective.min(initial=worth)), 1.0 + ROUNDING)
    between = (1 + 1 / worth) * between
    total = within + between
    share = shares(np.diag(between), np.diag(total))
    known = float(np.mean([fit.df for fit in fits]))
    df = np.array([degrees_of_freedom(each, worth, known) for each in share])
    reach = stdtrit(df, (1 + level) / 2) * np.sqrt(np.diag(total))
    estimate = estimates.mean(axis=0)
    share = share if m > 1 else np.full_like(share, np.nan)  # one data set cannot tell
    names = fits[0].names
    return Pooled(
        names, estimate, total, df, estimate - reach, estimate + reach, share, error, level
    )


def degrees_of_freedom(share: float, m: float, known: float) -> float:
    """Barnard and Rubin's, from the share of variance between fits and their own."""
    if share == 0:
        return known
    between = (m - 1) / share**2
    if np.isinf(known):
        return between
    observed = (known + 1) / (known + 3) * known * (1 - share)
    return between * observed / (between + observed) if observed > 0 else between


def mix(samples: Sequence[Sample], level: float = 0.95, chain: Int64s | None = None) -> Pooled:
    """Mix posterior draws given several data sets: all of them together are the posterior.

    Its variance is the mean of the variances within data sets plus the variance of their means,
    less what the latter owes to the number of draws within. Data sets weigh the same, however many
    draws an analysis made of each.

    >>> few, more = Sample(("x",), np.array([[1.0], [3.0]])), Sample(("x",), np.full((3, 1), 7.0))
    >>> mix([few, more]).estimate.item()
    4.5
    """
    check_level(level)
    means = np.array([sample.draws.mean(axis=0) for sample in samples])
    covariances = np.array([covariance_of(sample.draws) for sample in samples])
    sizes = np.array([len(sample.draws) for sample in samples])
    within = covariances.mean(axis=0)
    between = covariance_of(means)
    noise = np.diag((covariances / sizes[:, None, None]).mean(axis=0))
    owed = np.minimum(1.0, shares(noise, np.diag(between)))
    left = np.sqrt(1.0 - owed)
    between = between * np.outer(left, left)
    total = within + between
    share = shares(np.diag(between), np.diag(total))
    share = share if len(samples) > 1 else np.full_like(share, np.nan)  # one cannot tell
    lower, upper = np.quantile(
        np.concatenate([sample.draws for sample in samples]),
        [(1 - level) / 2, (1 + level) / 2],
        axis=0,
        weights=np.repeat(1.0 / sizes, sizes),
        method="inverted_cdf",
    )
    error = monte_carlo_error(means, chain)
    df = np.full(len(share), np.inf)
    names = samples[0].names
    return Pooled(names, means.mean(axis=0), total, df, lower, upper, share, error, level)


def covariance_of(values: Floats) -> Floats:
    """Sample covariance of the rows (m, p); nothing where there is one row only."""
    if len(values) == 1:
        return np.zeros((values.shape[1],) * 2)
    return np.atleast_2d(np.cov(values, rowvar=False))


def shares(part: Floats, whole: Floats) -> Floats:
    """Shares of a whole; none of nothing, and none where rounding alone makes a difference."""
    return np.divide(part, whole, out=np.zeros_like(part), where=part > ROUNDING * whole)


def monte_carlo_error(values: Floats, chain: Int64s | None) -> Floats:
    """Monte Carlo standard errors of the means of the columns (m, p).

    Chains are cut to the length of the shortest.
    """
    chain = np.zeros(len(values), np.int64) if chain is None else chain
    rows = [np.flatnonzero(chain == each) for each in np.unique(chain)]
    length = min(map(len, rows))
    by_chain = np.stack([values[own[:length]] for own in rows])
    return np.array([mcse(by_chain[:, :, i]) for i in range(values.shape[1])])


def check_level(level: float) -> None:
    """Refuse a level of intervals that is none."""
    if not 0 < level < 1:
        raise ConfigError(f"level = {level} must be between 0 and 1")
