"""Carry the doubt about who is who into analyses of linked data."""

from smered.propagate.fit import Fit, Sample
from smered.propagate.formula import linear, logistic, poisson
from smered.propagate.pool import Pooled, mix, pool
from smered.propagate.run import Analysis, Failure, Propagation

__all__ = [
    "Analysis",
    "Failure",
    "Fit",
    "Pooled",
    "Propagation",
    "Sample",
    "linear",
    "logistic",
    "mix",
    "poisson",
    "pool",
]
