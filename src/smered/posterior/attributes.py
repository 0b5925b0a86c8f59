"""The population of entities by the true value of a field."""

from typing import TYPE_CHECKING, Any

import numpy as np

from smered.errors import ConfigError
from smered.layout import Floats, Int32s, Int64s
from smered.model import Model
from smered.posterior.draw import DrawView
from smered.posterior.traces import Counts, only_seen
from smered.records import Records
from smered.state import Classes
from smered.suggest import suggest

if TYPE_CHECKING:
    from smered.posterior.posterior import Posterior

__all__ = ["count_attributes", "fill_hidden"]

OVERLAP = "overlap"


def count_attributes(
    posterior: "Posterior", field: str, by: str | None, draws: int | None, *, fill: bool = False
) -> Counts:
    """Count entities by level of `field`, or by (group, level); see `Posterior.attributes`.

    `fill` draws a level where no record shows one, instead of counting it as None.
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
            seed = posterior.run.settings.seed, view.chain, view.draw
            rng = np.random.default_rng(seed)
            true = view.true_values[entities]
            level = fill_hidden(true, column, posterior.model, view.theta[field], view.classes, rng)
        group: Int64s = np.zeros(len(entities), np.int64)
        if by == OVERLAP:
            group = pattern_numbers(view.linkage, entities, groups, posterior.records)
        elif by is not None:
            group = view.true_values[entities, names.index(by)].astype(np.int64) % len(groups)
        return np.bincount(group * len(levels) + level, minlength=len(groups) * len(levels))

    found = posterior.evaluate(count, draws).transpose(2, 0, 1)
    kinds = [level if by is None else (group, level) for group in groups for level in levels]
    return only_seen(kinds, found)


def fill_hidden(
    true: Int32s | Int64s,
    column: int,
    model: Model,
    theta: Floats,
    classes: Classes,
    rng: np.random.Generator,
) -> Int64s:
    """True levels of a field (N,), drawn where no record shows one: -1 in `true` (N, p).

    From theta of the field; with latent classes from theta of an entity's class, which is drawn
    given its other true values.
    """
    level = true[:, column].astype(np.int64)
    hidden = np.flatnonzero(level < 0)
    share = np.tile(theta, (len(hidden), 1))
    if model.classes > 1 and not model.near[column]:
        log_class = np.tile(np.log(classes.weight), (len(hidden), 1))
        for other in np.flatnonzero(~model.near):
            shown = true[hidden, other]
            at = np.where(shown >= 0, shown, 0) + model.field_start[other]
            log_class += np.where(shown[:, None] >= 0, np.log(classes.theta[at]), 0.0)
        weight = np.exp(log_class - log_class.max(axis=1, keepdims=True))
        own = slice(*model.field_start[column : column + 2])
        share = weight @ classes.theta[own].T
    below = np.cumsum(share, axis=1)
    chosen = (rng.random((len(hidden), 1)) * below[:, -1:] >= below).sum(axis=1)
    level[hidden] = np.minimum(chosen, share.shape[1] - 1)
    return level


def pattern_numbers(
    linkage: Int64s, entities: Int64s, patterns: list[Any], records: Records
) -> Int64s:
    """The overlap pattern of each entity of one draw, by its number in `patterns`."""
    held = np.zeros((len(entities), len(records.files)), np.bool_)
    held[np.searchsorted(entities, linkage), records.file] = True
    rows, number = np.unique(held, axis=0, return_inverse=True)
    names = [tuple(records.files[i] for i in np.flatnonzero(row)) for row in rows]
    return np.array([patterns.index(name) for name in names])[number.ravel()]
