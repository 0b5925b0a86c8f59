"""Ready analyses: regressions by formula, fitted by statsmodels."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from smered.errors import ConfigError, DataError
from smered.posterior.linked import MATCH
from smered.propagate.fit import Fit
from smered.suggest import suggest

__all__ = ["Regression", "linear", "logistic", "poisson"]

LARGEST_ERROR = 100.0  # of a coefficient, for one standard deviation of its column
SURE = 0.9  # match probability from which on entities enter a regression


def linear(formula: str, *, min_probability: float = SURE, **fit: Any) -> "Regression":
    """Linear regression by least squares; `fit` is handed on, such as `cov_type="HC3"`."""
    return Regression("linear", formula, min_probability, fit=fit)


def logistic(formula: str, *, min_probability: float = SURE, **fit: Any) -> "Regression":
    """Logistic regression by maximum likelihood; coefficients are log odds ratios."""
    return Regression("logistic", formula, min_probability, fit=fit)


def poisson(
    formula: str,
    *,
    exposure: str | None = None,
    min_probability: float = SURE,
    **fit: Any,
) -> "Regression":
    """Poisson regression by maximum likelihood; coefficients are logarithms of rate ratios.

    `exposure` is a column of times at risk.
    """
    return Regression("poisson", formula, min_probability, exposure, fit)


@dataclass(frozen=True)
class Regression:
    """A regression of linked data by a formula such as `income ~ age + C(town)`.

    Entities that lack a value are left out, as those are that a file does not hold. So are those
    whose records match with less than `min_probability`, in wide data sets: a false link brings
    together values that have nothing to do with each other, and pulls coefficients towards zero.
    """

    kind: Literal["linear", "logistic", "poisson"]
    formula: str
    min_probability: float = SURE
    exposure: str | None = None
    fit: dict[str, Any] = field(default_factory=dict)

    def needs(self, columns: Sequence[str]) -> list[str]:
        """The columns that the formula may name."""
        if self.exposure is not None and self.exposure not in columns:
            raise ConfigError(
                f"the linked data have no column {self.exposure!r}; "
                f"{suggest(self.exposure, columns)}"
            )
        wanted = (self.exposure, MATCH)
        return [name for name in columns if name in wanted or names_column(self.formula, name)]

    def __call__(self, table: pa.Table) -> Fit:
        """Fit the regression to one linked data set."""
        try:
            import statsmodels.api as sm
            import statsmodels.formula.api as smf
        except ImportError:
            raise ConfigError(
                "regressions need statsmodels: pip install 'smered[analyses]'"
            ) from None
        frame = table.to_pandas()
        frame = frame[self.needs(table.column_names)].dropna()
        if frame.empty:
            raise DataError(f"no entity has a value in all of: {', '.join(frame.columns)}")
        if MATCH in frame:
            frame = frame[frame[MATCH] >= self.min_probability]
        if frame.empty:
            raise DataError(
                f"no entity's records match with probability {self.min_probability} or more"
            )
        outcome = self.formula.partition("~")[0].strip()
        if outcome in frame:
            frame = frame.assign(**{outcome: as_numbers(outcome, frame[outcome])})
        if self.kind == "linear":
            model = smf.ols(self.formula, frame)
        else:
            family = sm.families.Binomial() if self.kind == "logistic" else sm.families.Poisson()
            exposure = None if self.exposure is None else frame[self.exposure]
            model = smf.glm(self.formula, frame, family=family, exposure=exposure)
        check_rank(model.exog, model.exog_names)
        found = model.fit(**self.fit)
        if self.kind != "linear":
            check_maximum(found, model.exog, model.exog_names)
        estimate = dict(zip(model.exog_names, np.asarray(found.params, float), strict=True))
        df = float(found.df_resid) if self.kind == "linear" else math.inf
        return Fit(estimate, np.asarray(found.cov_params(), float), df)


def as_numbers(outcome: str, values: Any) -> Any:
    """An outcome as numbers: of true and false, statsmodels would take the first for success."""
    from pandas.api.types import is_numeric_dtype

    if values.isin([True, False]).all():
        return values.astype(int)
    if not is_numeric_dtype(values):
        raise DataError(
            f"the outcome {outcome} is text; use numbers, such as 1 for yes and 0 for no"
        )
    return values


def names_column(formula: str, column: str) -> bool:
    """Whether a formula names a column, as a word of its own or as Q("column").

    >>> names_column("wage ~ age", "age"), names_column("wage ~ year", "age")
    (True, False)
    """
    quoted = any(f"Q({quote}{column}{quote})" in formula for quote in "'\"")
    return quoted or re.search(rf"(?<![\w.]){re.escape(column)}(?![\w.(])", formula) is not None


def check_maximum(found: Any, design: Any, names: Sequence[str]) -> None:
    """Refuse a fit whose likelihood has no maximum at finite coefficients.

    The likelihood is then flat in some direction: a standard error is out of all proportion.
    """
    errors = np.sqrt(np.diag(np.asarray(found.cov_params(), float)))
    scale = design.std(axis=0)
    scaled = errors * np.where(scale > 0, scale, np.abs(design[0]))
    largest = int(np.argmax(np.nan_to_num(scaled, nan=np.inf)))
    if not found.converged or not scaled[largest] < LARGEST_ERROR:
        raise DataError(
            f"the likelihood has no maximum: {names[largest]} separates the outcomes, or tells "
            "nothing about them; leave it out or join its levels"
        )


def check_rank(design: Any, names: Sequence[str]) -> None:
    """Refuse a fit that has no single answer."""
    rows, columns = design.shape
    if rows <= columns:
        raise DataError(f"{rows} entities are too few for {columns} coefficients")
    seen = np.empty((rows, 0))
    if np.linalg.matrix_rank(design) == columns:
        return
    for i, name in enumerate(names):
        seen = np.column_stack((seen, design[:, i]))
        if np.linalg.matrix_rank(seen) < i + 1:
            raise DataError(
                f"the fit is singular: {name} follows from the terms before it; leave it out"
            )
