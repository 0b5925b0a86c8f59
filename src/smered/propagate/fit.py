"""What an analysis of one linked data set may return."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from smered.errors import ConfigError, DataError
from smered.layout import Floats

__all__ = ["Fit", "Sample", "as_outcome"]

ONE = "value"  # the name of a number without one


@dataclass(frozen=True)
class Fit:
    """Estimates of one data set, their covariance, and the degrees of freedom behind it.

    `covariance` may be a matrix, or the variances alone. `df` is infinite where estimates are
    taken to be normal.
    """

    names: tuple[str, ...]
    estimate: Floats  # (p,)
    covariance: Floats  # (p, p)
    df: float = math.inf

    def __init__(
        self, estimate: Mapping[str, float], covariance: Any, df: float = math.inf
    ) -> None:
        values = np.array([float(value) for value in estimate.values()])
        given = np.asarray(covariance, np.float64)
        matrix = np.diag(given) if given.ndim == 1 else given
        if matrix.shape != (len(values), len(values)):
            raise DataError(
                f"a covariance of {len(values)} estimates has shape {(len(values),) * 2}, "
                f"not {given.shape}"
            )
        if not (np.isfinite(values).all() and np.isfinite(matrix).all()):
            bad = [name for name, value, row in zip(estimate, values, matrix, strict=True)
                   if not (np.isfinite(value) and np.isfinite(row).all())]  # fmt: skip
            raise DataError(f"no finite estimate of {', '.join(bad)}: is the fit singular?")
        if (np.diag(matrix) < 0).any() or not df > 0:
            raise DataError("variances must not be negative, and df must be above 0")
        for key, value in (("names", tuple(map(str, estimate))), ("estimate", values),
                           ("covariance", matrix), ("df", float(df))):  # fmt: skip
            object.__setattr__(self, key, value)


@dataclass(frozen=True)
class Sample:
    """Posterior draws of some numbers given one data set; a single one is the number itself."""

    names: tuple[str, ...]
    draws: Floats  # (draws, p)


def as_outcome(value: Any) -> Fit | Sample:
    """Read what an analysis returned: a fit, a fitted statsmodels result, or numbers by name."""
    if isinstance(value, Fit):
        return value
    if hasattr(value, "params") and hasattr(value, "cov_params"):
        names = list(getattr(value.params, "index", range(len(value.params))))
        estimate = dict(zip(map(str, names), np.asarray(value.params, float), strict=True))
        df = float(value.df_resid) if getattr(value, "use_t", False) else math.inf
        return Fit(estimate, np.asarray(value.cov_params(), float), df)
    if hasattr(value, "as_py"):
        value = value.as_py()  # a scalar of Arrow
    if np.isscalar(value) and not isinstance(value, str):
        value = {ONE: value}
    if not isinstance(value, Mapping) or not value:
        raise ConfigError(
            f"an analysis returned {type(value).__name__}; it must return a Fit, a fitted "
            "statsmodels result, a number, or numbers or arrays of draws by name"
        )
    draws = [np.atleast_1d(np.asarray(each, np.float64)) for each in value.values()]
    sizes = {each.shape for each in draws}
    if len(sizes) > 1 or len(next(iter(sizes))) != 1:
        raise DataError("an analysis must return as many draws of each number as of the others")
    sample = np.stack(draws, axis=1)
    if not len(sample) or not np.isfinite(sample).all():
        bad = [str(name) for name, each in zip(value, sample.T, strict=True)
               if not np.isfinite(each).all()]  # fmt: skip
        raise DataError(f"no finite value of {', '.join(bad) or 'anything'}")
    return Sample(tuple(map(str, value)), sample)
