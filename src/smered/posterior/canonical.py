"""The true values of the entities of an estimate, with their probabilities."""

from collections.abc import Sequence, Set

import numpy as np
import pyarrow as pa

from smered.layout import Floats, Int64s
from smered.model import Model
from smered.posterior.estimate import Estimate
from smered.posterior.evidence import FieldDraw, Shown, Stretches

__all__ = ["best_levels", "canonical_table", "free_name", "true_value_probabilities"]

OWN = {"entity_id", "probability", "records", "files", "members"}  # columns of tables of entities


def true_value_probabilities(
    entity: Int64s, column: int, model: Model, draws: Sequence[FieldDraw]
) -> tuple[Int64s, Int64s, Floats]:
    """Probability of each true value given the records of an entity, averaged over draws.

    Given the linkage, equation (9) is the exact probability for one draw's parameters; its mean
    over draws is the posterior's. Returns entities, levels that their records show, and the
    probability of each.
    """
    if model.changing[column]:
        return latest_values(entity, column, model, draws)
    shown = Shown.of(entity, np.arange(len(entity)), column, model)
    total = np.zeros(len(shown.owner))
    if not len(total):
        return shown.owner, shown.level, total
    if model.coded[column].exact:
        return shown.owner, shown.level, np.ones(len(total))
    for draw in draws:
        total += shown.true(draw)
    kept = shown.shown
    return shown.owner[kept], shown.level[kept], total[kept] / len(draws)


def latest_values(
    entity: Int64s, column: int, model: Model, draws: Sequence[FieldDraw]
) -> tuple[Int64s, Int64s, Floats]:
    """The same where true values change over time: those at the last time that shows one.

    The value is that of the last stretch, which begins at any time (equation 28).
    """
    entities, levels = int(entity.max()) + 1, len(model.coded[column].mu)
    record = np.flatnonzero(model.coded[column].codes >= 0)
    time = model.time[model.records.file[record]]
    latest = np.full(entities, -1)
    np.maximum.at(latest, entity[record], time)
    keys, chances = [], []
    for draw in draws:
        stretches = Stretches.of(entity[record], record, entities, column, model, draw)
        for end in range(1, len(draw.change) + 2):
            for begin in range(end):
                own = (latest[entity[record]] == end - 1) & (time >= begin)
                shown = Shown.of(entity[record][own], record[own], column, model)
                if not len(shown.owner):
                    continue
                share = np.exp(stretches.last[begin, end] - stretches.reach[end])[shown.owner]
                here = 1.0 if model.coded[column].exact else shown.true(draw)
                keys.append((shown.owner * levels + shown.level)[shown.shown])
                chances.append((share * here)[shown.shown])
    if not keys:
        return np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0)
    key, number = np.unique(np.concatenate(keys), return_inverse=True)
    total = np.bincount(number, np.concatenate(chances)) / len(draws)
    return key // levels, key % levels, total


def best_levels(
    estimate: Estimate, column: int, model: Model, draws: Sequence[FieldDraw]
) -> tuple[Int64s, Floats]:
    """Each entity's most probable level, -1 where no record shows one, and its probability."""
    owner, level, probability = true_value_probabilities(estimate.entity, column, model, draws)
    best = np.lexsort((-level, probability, owner))  # the last of an owner is its best
    last = np.append(owner[best][1:] != owner[best][:-1], True) if len(best) else best
    chosen = best[last.astype(bool)]
    value = np.full(len(estimate), -1, np.int64)
    certainty = np.zeros(len(estimate))
    value[owner[chosen]] = level[chosen]
    certainty[owner[chosen]] = probability[chosen]
    return value, certainty


def canonical_table(
    estimate: Estimate, model: Model, draws: Sequence[Sequence[FieldDraw]]
) -> pa.Table:
    """One row per entity: its id, probability and size, each field's value and its probability.

    `draws` holds each field's parameters. A value is null where no record shows one.
    """
    table: dict[str, object] = {
        "entity_id": pa.array(estimate.entity_id),
        "probability": estimate.probability,
        "records": np.bincount(estimate.entity),
    }
    for column, part in enumerate(model.coded):
        value, certainty = best_levels(estimate, column, model, draws[column])
        missing = value < 0
        name = free_name(part.name, {*table, *OWN})
        table[name] = part.levels.take(pa.array(value, mask=missing))
        table[free_name(f"{part.name}: probability", set(table))] = pa.array(
            certainty, mask=missing
        )
    return pa.table(table)


def free_name(name: str, taken: Set[str]) -> str:
    """A name for an input column that no other column has.

    >>> free_name("records", {"records"})
    'input_records'
    """
    while name in taken:
        name = f"input_{name}"
    return name
