"""The population of entities by the true value of a field."""

from typing import TYPE_CHECKING, Any

import numpy as np

from smered.errors import ConfigError
from smered.layout import Int64s
from smered.posterior.draw import DrawView
from smered.posterior.traces import Counts, only_seen
from smered.records import Records
from smered.suggest import suggest

if TYPE_CHECKING:
    from smered.posterior.posterior import Posterior

__all__ = ["count_attributes"]

OVERLAP = "overlap"


def count_attributes(
    posterior: "Posterior", field: str, by: str | None, draws: int | None, *, fill: bool = False
) -> Counts:
    """Count entities by level of `field`, or by (group, level); see `Posterior.attributes`.

    `fill` draws a level from theta where no record shows one, instead of counting it as None.
    """
    coded = posterior.model.coded
    names = [part.name for part in coded]
    for name, others in ((field, ()), (by, (None, OVERLAP))):
        if name not in (*names, *others):
            raise ConfigError(f"no field {name!r}; {suggest(str(name), names)}")
    column = names.index(field)
    levels = [*coded[column].levels.to_pylist(), None]  # the last: shown by no record
    groups: list[Any] = [None]
    if by == OVERLAP:
        groups = list(posterior.overlap().kinds)
    elif by is not None:
        groups = [*coded[names.index(by)].levels.to_pylist(), None]

    def count(view: DrawView) -> Int64s:
        entities = view.entities
        level = view.true_values[entities, column] % len(levels)  # -1 becomes the last
        if fill:
            hidden = np.flatnonzero(level == len(levels) - 1)
            seed = posterior.run.settings.seed, view.chain, view.draw
            theta = view.theta[field]
            drawn = np.random.default_rng(seed).choice(
                len(theta), len(hidden), p=theta / theta.sum()
            )
            level[hidden] = drawn
        group: Int64s = np.zeros(len(entities), np.int64)
        if by == OVERLAP:
            group = pattern_numbers(view.linkage, entities, groups, posterior.records)
        elif by is not None:
            group = view.true_values[entities, names.index(by)].astype(np.int64) % len(groups)
        return np.bincount(group * len(levels) + level, minlength=len(groups) * len(levels))

    found = posterior.evaluate(count, draws).transpose(2, 0, 1)
    kinds = [level if by is None else (group, level) for group in groups for level in levels]
    return only_seen(kinds, found)


def pattern_numbers(
    linkage: Int64s, entities: Int64s, patterns: list[Any], records: Records
) -> Int64s:
    """The overlap pattern of each entity of one draw, by its number in `patterns`."""
    held = np.zeros((len(entities), len(records.files)), np.bool_)
    held[np.searchsorted(entities, linkage), records.file] = True
    rows, number = np.unique(held, axis=0, return_inverse=True)
    names = [tuple(records.files[i] for i in np.flatnonzero(row)) for row in rows]
    return np.array([patterns.index(name) for name in names])[number.ravel()]
