"""Bayesian record linkage and de-duplication with exact uncertainty."""

__version__ = "0.1.0"
