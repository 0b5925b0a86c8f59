"""How good a linkage is, where the truth is known."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from smered.layout import Int64s
from smered.posterior import Posterior
from smered.store.lifetimes import Lifetimes

__all__ = ["Links", "links", "posterior_links"]


@dataclass(frozen=True)
class Links:
    """Pairs of records: rightly linked, wrongly linked, and missed (counts or their means)."""

    true: float
    false: float
    missing: float

    @property
    def fnr(self) -> float:
        """False negative rate: missing links over the links in truth."""
        return self.missing / (self.true + self.missing) if self.true + self.missing else 0.0

    @property
    def fpr(self) -> float:
        """The paper's false positive rate: false links over the links in truth; may exceed 1."""
        return self.false / (self.true + self.missing) if self.true + self.missing else 0.0

    @property
    def precision(self) -> float:
        """True links over the links found."""
        return self.true / (self.true + self.false) if self.true + self.false else 1.0

    @property
    def recall(self) -> float:
        """True links over the links in truth."""
        return 1.0 - self.fnr

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall."""
        return 2 * self.true / (2 * self.true + self.false + self.missing or 1.0)


def pairs_within(*labels: ArrayLike) -> int:
    """Pairs of records that agree on all label vectors, in linear time.

    >>> pairs_within([1, 1, 1, 2])
    3
    """
    codes: Int64s = np.zeros(len(np.asarray(labels[0])), np.int64)
    for label in labels:
        number = np.unique(np.asarray(label), return_inverse=True)[1]
        codes = np.unique(codes * (int(number.max(initial=0)) + 1) + number, return_inverse=True)[1]
    sizes = np.bincount(codes) if len(codes) else np.zeros(0, np.int64)
    return int((sizes * (sizes - 1) // 2).sum())


def links(estimate: ArrayLike, truth: ArrayLike) -> Links:
    """Compare an estimated linkage with the truth, both as one label per record.

    >>> links([1, 1, 2, 2], [1, 1, 1, 2])
    Links(true=1, false=1, missing=2)
    """
    both = pairs_within(estimate, truth)
    return Links(both, pairs_within(estimate) - both, pairs_within(truth) - both)


def posterior_links(posterior: Posterior, truth: ArrayLike) -> Links:
    """Posterior means of true, false and missing links (the paper's table)."""
    found, right = linked_pairs(posterior.lifetimes, np.asarray(truth))
    draws = posterior.chains * posterior.draws
    true = float(posterior.lifetimes.length @ right) / draws
    linked = float(posterior.lifetimes.length @ found) / draws
    return Links(true, linked - true, pairs_within(truth) - true)


def linked_pairs(lifetimes: Lifetimes, truth: Int64s) -> tuple[Int64s, Int64s]:
    """Pairs of records in each cluster, and how many of them are true links (L,)."""
    size = lifetimes.size
    label = np.unique(truth, return_inverse=True)[1]
    key = lifetimes.owner * (int(label.max()) + 1) + label[lifetimes.member]
    key.sort()
    first = np.flatnonzero(np.append(True, key[1:] != key[:-1]))
    together = np.diff(np.append(first, len(key)))
    owner = key[first] // (int(label.max()) + 1)
    right = np.bincount(owner, together * (together - 1) // 2, minlength=len(size))
    return size * (size - 1) // 2, right.astype(np.int64)
