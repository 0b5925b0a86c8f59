"""Ready analyses: regressions by formula, fitted by statsmodels."""

import ast
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from smered.errors import ConfigError, DataError
from smered.layout import Floats
from smered.posterior.linked import MATCH
from smered.propagate.fit import Fit
from smered.suggest import suggest

__all__ = ["Regression", "linear", "logistic", "poisson"]

FAR = 12.0  # a linear predictor from which on a fit may be on its way to infinity
SEPARATED = 1e-6  # a step of the linear program above rounding
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
        """The columns that the formula names."""
        wanted = names_in(self.formula)
        if self.exposure is not None:
            wanted.add(self.exposure)
        for name in sorted(wanted - set(columns) - known_names()):
            raise ConfigError(f"the linked data have no column {name!r}; {suggest(name, columns)}")
        return [name for name in columns if name == MATCH or name in wanted]

    def __call__(self, table: pa.Table) -> Fit:
        """Fit the regression to one linked data set."""
        sm = load("statsmodels.api")
        # without missing values whole numbers stay whole, whatever the draw
        frame = table.select(self.needs(table.column_names)).drop_null().to_pandas().dropna()
        if frame.empty:
            raise DataError(f"no entity has a value in all of: {', '.join(frame.columns)}")
        if MATCH in frame:
            frame = frame[frame[MATCH] >= self.min_probability]
        if frame.empty:
            raise DataError(
                f"no entity's records match with probability {self.min_probability} or more"
            )
        outcome, design = self.matrices(frame)
        names = list(design.columns)
        check_rank(design.to_numpy(), names)
        if self.kind == "linear":
            found = sm.OLS(outcome, design).fit(**self.fit)
        else:
            family = sm.families.Binomial() if self.kind == "logistic" else sm.families.Poisson()
            exposure = None if self.exposure is None else frame.loc[design.index, self.exposure]
            check_outcome(self.kind, outcome, exposure)
            found = sm.GLM(outcome, design, family=family, exposure=exposure).fit(**self.fit)
            check_maximum(self.kind, found, outcome.to_numpy(), design.to_numpy(), names)
        estimate = dict(zip(names, np.asarray(found.params, float), strict=True))
        df = float(found.df_resid) if self.kind == "linear" else math.inf
        return Fit(estimate, np.asarray(found.cov_params(), float), df)

    def matrices(self, frame: Any) -> tuple[Any, Any]:
        """Outcome and design. An outcome of true and false counts what is true."""
        patsy = load("patsy")
        try:
            outcome, design = patsy.dmatrices(
                self.formula, frame, patsy.EvalEnvironment([{"np": np}]), return_type="dataframe"
            )
        except patsy.PatsyError as error:
            raise ConfigError(f"formula {self.formula!r}: {error.message}") from None
        if outcome.shape[1] == 0 or design.shape[1] == 0:
            raise ConfigError(f"formula {self.formula!r} lacks an outcome or terms: write y ~ x")
        first, last = (str(outcome.columns[i]) for i in (0, -1))
        if outcome.shape[1] == 2 and first.endswith("[False]") and last.endswith("[True]"):
            return outcome[last], design
        if outcome.shape[1] > 1:
            raise DataError(
                f"the outcome {self.formula.partition('~')[0].strip()} has categories; use "
                "numbers, such as 1 for yes and 0 for no"
            )
        return outcome[first], design


def load(module: str) -> Any:
    """A package that regressions need."""
    try:
        return import_module(module)
    except ImportError:
        raise ConfigError("regressions need statsmodels: pip install 'smered[analyses]'") from None


def known_names() -> set[str]:
    """What formulas may name besides columns."""
    return {"np", *vars(load("patsy.builtins"))}


def names_in(formula: str) -> set[str]:
    """The variables of a formula, those in Q("...") among them.

    >>> sorted(names_in("wage ~ age + np.exp(Q('a b')) + bs(year, df=degree)"))
    ['a b', 'age', 'degree', 'np', 'wage', 'year']
    """
    patsy = load("patsy")
    try:
        terms = patsy.ModelDesc.from_formula(formula)
    except patsy.PatsyError as error:
        raise ConfigError(f"formula {formula!r}: {error.message}") from None
    found: set[str] = set()
    for term in (*terms.lhs_termlist, *terms.rhs_termlist):
        for factor in term.factors:
            nodes = list(ast.walk(ast.parse(factor.code, mode="eval")))
            calls = [node for node in nodes if isinstance(node, ast.Call)]
            called = {id(node.func) for node in calls}
            found |= {
                node.id for node in nodes if isinstance(node, ast.Name) and id(node) not in called
            }
            found |= {
                str(node.args[0].value)
                for node in calls
                if isinstance(node.func, ast.Name) and node.func.id == "Q"
                if node.args and isinstance(node.args[0], ast.Constant)
            }
    return found


def check_outcome(kind: str, outcome: Any, exposure: Any) -> None:
    """Refuse outcomes that the model cannot have."""
    if kind == "logistic" and not outcome.between(0, 1).all():
        raise DataError(f"the outcome {outcome.name} of a logistic regression must be 0 or 1")
    if kind == "poisson" and (outcome < 0).any():
        raise DataError(f"the outcome {outcome.name} of a Poisson regression must not be negative")
    if outcome.nunique() == 1 and outcome.iloc[0] in ((0, 1) if kind == "logistic" else (0,)):
        raise DataError(f"the outcome {outcome.name} is the same for all entities")
    if exposure is not None and (exposure <= 0).any():
        raise DataError(f"the exposure {exposure.name} must be above 0")


def check_maximum(
    kind: str, found: Any, outcome: Floats, design: Floats, names: Sequence[str]
) -> None:
    """Refuse a fit whose likelihood has no maximum at finite coefficients.

    That is so if some change of the coefficients moves every fitted mean towards its outcome, or
    leaves it, and moves some: a linear program finds it (Konis 2007). It is asked only of fits that
    went far, or nowhere.
    """
    if found.converged and np.abs(design @ np.asarray(found.params)).max() < FAR:
        return
    from scipy.optimize import linprog

    spread = design.std(axis=0)
    constant = spread == 0
    scaled = design / np.abs(design).max(axis=0)
    if constant.any():  # which makes up for centring
        scaled = np.where(constant, 1.0, (design - design.mean(axis=0)) / (spread + constant))
    top = (outcome == 1) & (kind == "logistic")
    free = (outcome == 0) | top  # outcomes that only endless coefficients predict
    towards = np.where(top, 1.0, -1.0)[free, None] * scaled[free]
    held = {"A_eq": scaled[~free], "b_eq": np.zeros((~free).sum())} if not free.all() else {}
    answer = linprog(-towards.sum(axis=0), -towards, np.zeros(len(towards)), bounds=(-1, 1), **held)
    if answer.success and (towards @ answer.x).max(initial=0.0) > SEPARATED:
        size = np.where(constant, 0.0, np.abs(answer.x))
        raise DataError(
            f"the likelihood has no maximum: {names[int(size.argmax())]} separates the outcomes; "
            "leave it out or join its levels"
        )
    if not found.converged:
        raise DataError("the fit did not come to rest; simplify the formula")


def check_rank(design: Floats, names: Sequence[str]) -> None:
    """Refuse a fit that has no single answer."""
    rows, columns = design.shape
    if rows <= columns:
        raise DataError(f"{rows} entities are too few for {columns} coefficients")
    design = design / np.maximum(np.abs(design).max(axis=0), np.finfo(float).tiny)
    seen = np.empty((rows, 0))
    if np.linalg.matrix_rank(design) == columns:
        return
    for i, name in enumerate(names):
        seen = np.column_stack((seen, design[:, i]))
        if np.linalg.matrix_rank(seen) < i + 1:
            raise DataError(
                f"the fit is singular: {name} follows from the terms before it; leave it out"
            )
