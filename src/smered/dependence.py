"""Columns that go together, found in the data without truth: what agreeing in one says of another.

Among all pairs of records, nearly all are of different entities. If columns are independent, those
that agree in one agree in another as often as any pair does.
"""

import math
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np

from smered.layout import Int32s, Int64s
from smered.records import number_rows

__all__ = ["Together", "find_groups", "follows", "partly_dependent", "slipping_share"]

PARTNERS = 20  # records that agree in a column, on average: then few of them are of one entity
TIMES_CHANCE = 3.0  # how much more often columns agree together than they would by chance
MOSTLY = 0.5  # of the pairs that agree in one column agree in the other
COMMON, RARE = 50, 2  # records that share a part, and that share the whole
NOTABLY = 1.3  # the same, of columns that go together in part
MANY_BITS = 2.0  # by which agreement in all such pairs would be overrated
FEW = 10  # records to a value, from which it can be told whether another column follows from it


class Together(NamedTuple):
    """Two columns that go together, and by how much."""

    one: str
    two: str
    share: float  # of the pairs that agree in `one` agree in `two`
    chance: float  # of all pairs do

    @property
    def sentence(self) -> str:
        """What was found, for people."""
        return (
            f"records that agree in {self.one!r} agree in {self.two!r} in {self.share:.0%} of "
            f"cases, where chance has {self.chance:.0%}"
        )


def count_pairs(numbers: Int64s) -> float:
    """Ordered pairs of different records with equal numbers."""
    size = np.bincount(numbers).astype(np.float64)
    return float((size * (size - 1)).sum())


def compare(one: str, two: str, columns: Mapping[str, Int32s]) -> Together | None:
    """How far agreement in one of two columns speaks of the other; None if it cannot be told."""
    both = (columns[one] >= 0) & (columns[two] >= 0)
    n = int(both.sum())
    codes = {name: number_rows([columns[name][both]], n) for name in (one, two)}
    agree = {name: count_pairs(code) for name, code in codes.items()}
    if n < 2 or min(agree.values()) < PARTNERS * n:
        return None
    together = count_pairs(number_rows([columns[one][both], columns[two][both]], n))
    if agree[one] > agree[two]:
        one, two = two, one  # the one that tells more
    return Together(one, two, together / agree[one], agree[two] / (n * (n - 1.0)))


def find_groups(
    columns: Mapping[str, Int32s],
) -> list[tuple[tuple[str, ...], Together]]:
    """Groups of columns that change together, the pair that shows it most with each.

    Columns are coded, -1 where missing. A column joins the group of any other that it goes with.
    """
    found = []
    for one, two in combinations(columns, 2):
        pair = compare(one, two, columns)
        if pair and pair.share >= MOSTLY and pair.share >= TIMES_CHANCE * pair.chance:
            found.append(pair)
    group = {name: {name} for pair in found for name in pair[:2]}
    for pair in found:
        joined = group[pair.one] | group[pair.two]
        for name in joined:
            group[name] = joined
    groups = {tuple(name for name in columns if name in members) for members in group.values()}
    return [
        (members, max((p for p in found if p.one in members), key=lambda p: p.share / p.chance))
        for members in sorted(groups)
    ]


def slipping_share(columns: Sequence[Int32s]) -> float:
    """The share of records whose parts are common each, and together nearly unique.

    Where parts are recorded wrongly one by one, errors make such combinations.
    """
    whole = np.all([codes >= 0 for codes in columns], axis=0)
    parts = [codes[whole] for codes in columns]
    common = np.all([np.bincount(part)[part] >= COMMON for part in parts], axis=0)
    together = number_rows(parts, int(whole.sum()))
    return (
        float((common & (np.bincount(together)[together] <= RARE)).mean()) if len(together) else 0.0
    )


def partly_dependent(columns: Mapping[str, Int32s]) -> list[Together]:
    """Pairs of columns that go together in part, the strongest first, if all of it matters."""
    pairs = [compare(one, two, columns) for one, two in combinations(columns, 2)]
    found = [pair for pair in pairs if pair and pair.share >= NOTABLY * pair.chance]
    bits = sum(math.log2(pair.share / pair.chance) for pair in found)
    found.sort(key=lambda pair: -pair.share / pair.chance)
    return found if bits >= MANY_BITS else []


def follows(codes: Int32s, other: Int32s) -> bool:
    """Whether a column follows from another: each value of that one goes with a single value."""
    both = (codes >= 0) & (other >= 0)
    n = int(both.sum())
    if not n:
        return False
    groups = int(number_rows([other[both]], n).max()) + 1
    pairs = int(number_rows([other[both], codes[both]], n).max()) + 1
    telling = groups <= n / FEW  # else other values are too rare to tell
    return telling and pairs == groups and len(np.unique(codes[both])) > 1
