"""Figures of a posterior, and the report of a run."""
