"""Bayesian record linkage and de-duplication with exact uncertainty.

Records of one or more files are linked to latent entities; `link` returns the posterior of who is
who, with duplicates, true values and every number that depends on them.
"""

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

# The public names and where they live. They are imported when first used, so that
# `import smered` is quick and numba is loaded only when sampling starts.
PUBLIC = {
    "Categorical": "fields",
    "ConfigError": "errors",
    "ConvergenceWarning": "errors",
    "DataError": "errors",
    "DataWarning": "errors",
    "Ewens": "priors",
    "InformedPairs": "pairs",
    "Date": "fields",
    "Joint": "fields",
    "Number": "fields",
    "Text": "fields",
    "ClusterSizes": "priors",
    "Model": "model",
    "PitmanYor": "priors",
    "Posterior": "posterior",
    "RayCluster": "execute.on_ray",
    "Records": "records",
    "RunError": "errors",
    "UniformLabels": "priors",
    "RotatingBlocks": "pairs",
    "UniformPairs": "pairs",
    "UniformPartitions": "priors",
    "evaluate": "",
    "extend": "run",
    "link": "run",
    "population": "",
    "propagate": "",
    "resume": "run",
    "sample": "run",
    "simulate": "",
}

__all__ = ["__version__", *PUBLIC]

if TYPE_CHECKING:
    from smered import evaluate as evaluate
    from smered import population as population
    from smered import propagate as propagate
    from smered import simulate as simulate
    from smered.errors import ConfigError, ConvergenceWarning, DataError, DataWarning, RunError
    from smered.execute.on_ray import RayCluster
    from smered.fields import Categorical, Date, Joint, Number, Text
    from smered.model import Model
    from smered.pairs import InformedPairs, RotatingBlocks, UniformPairs
    from smered.posterior import Posterior
    from smered.priors import ClusterSizes, Ewens, PitmanYor, UniformLabels, UniformPartitions
    from smered.records import Records
    from smered.run import extend, link, resume, sample


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name not in PUBLIC:
        raise AttributeError(f"module 'smered' has no attribute {name!r}")
    home = PUBLIC[name]
    if not home:
        return import_module(f"smered.{name}")
    return getattr(import_module(f"smered.{home}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
