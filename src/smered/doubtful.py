"""Candidates that may be toggles: links that a distortion rate may be redrawn with."""

from collections.abc import Sequence

import numpy as np

from smered.layout import Int32s, Int64s, Layout, Toggles

__all__ = ["find_doubtful", "no_toggles"]

LEAST_DOUBT = 8  # the grade of candidates that may be toggles: odds of a thousand to one


def find_doubtful(layout: Layout, fields: Sequence[int]) -> dict[int, tuple[Toggles, int]]:
    """The doubtful candidates that differ in each of some fields, and how doubtful they are.

    Each pair once: the record that moves is the one with fewer candidates equal to it in all
    fields.
    """
    n = len(layout.cell)
    one = np.repeat(np.arange(n, dtype=np.int32), np.diff(layout.candidate_start))
    equal = np.ones(len(one), np.bool_)
    for column in layout.values.T:
        equal &= column[one] == column[layout.candidates]
    twins = np.bincount(one[equal], minlength=n)
    doubtful = layout.grade >= LEAST_DOUBT
    one, two = one[doubtful], layout.candidates[doubtful]
    turned = (twins[one] > twins[two]) | ((twins[one] == twins[two]) & (one > two))
    key = np.where(turned, two, one).astype(np.int64) * n + np.where(turned, one, two)
    key, first = np.unique(key, return_index=True)
    mover, anchor = (key // n).astype(np.int32), (key % n).astype(np.int32)
    grade = layout.grade[doubtful][first].astype(np.int64)
    found = {}
    for field in fields:
        one, two = layout.values[mover, field], layout.values[anchor, field]
        differ = (one != two) & (one >= 0) & (two >= 0)
        if differ.any():
            pairs = toggles(mover[differ], anchor[differ], layout.block_start)
            found[field] = pairs, int((grade[differ] ** 2).sum())
    return found


def toggles(mover: Int32s, anchor: Int32s, block_start: Int64s) -> Toggles:
    """Pairs, in the order of movers, that may be toggles."""
    pairs = len(mover)
    return Toggles(
        block_start=np.searchsorted(mover, block_start),
        mover=mover,
        anchor=anchor,
        shown=np.zeros(pairs, np.int32),
        level=np.zeros(pairs, np.int32),
        together=np.zeros(pairs, np.bool_),
        log_gain=np.zeros(pairs),
        wanted=np.zeros(pairs, np.bool_),
    )


def no_toggles(blocks: int) -> Toggles:
    """No pairs in any block."""
    none = np.empty(0, np.int32)
    return toggles(none, none, np.zeros(blocks + 1, np.int64))
