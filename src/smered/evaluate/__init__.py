"""How good a linkage is, where the truth is known."""

from smered.evaluate.evaluation import Evaluation, evaluate, posterior_links
from smered.evaluate.metrics import (
    Confusion,
    Links,
    Reliability,
    Scores,
    adjusted_rand,
    b_cubed,
    clusters,
    links,
    overlap_confusion,
    pairs_within,
    reliability,
    variation_of_information,
)
from smered.evaluate.truth import read_truth

__all__ = [
    "Confusion",
    "Evaluation",
    "Links",
    "Reliability",
    "Scores",
    "adjusted_rand",
    "b_cubed",
    "clusters",
    "evaluate",
    "links",
    "overlap_confusion",
    "pairs_within",
    "posterior_links",
    "read_truth",
    "reliability",
    "variation_of_information",
]
