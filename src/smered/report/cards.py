"""The clusters of a report: who they hold, what else they may be, and why; most doubtful first."""

import json
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from smered.layout import Floats, Int64s
from smered.posterior import Posterior
from smered.posterior.estimate import Estimate, estimated_sets
from smered.posterior.evidence import set_evidence
from smered.posterior.sets import group_starts
from smered.records import as_text

__all__ = ["collect_cards"]

LEAST_PROBABILITY = 0.05  # of a set that is named as an alternative
ALTERNATIVES = 4  # sets named for each entity besides its own
LARGEST_SHOWN = 30  # records of a set that are shown side by side
MOST_EVIDENCE = 999  # bits; a contradiction in a field that is never distorted is endless


def collect_cards(
    posterior: Posterior, estimate: Estimate, *, bytes: int, mask: bool = False
) -> dict[str, Any]:
    """As many entities as fit into so many bytes of JSON, the least certain first.

    Returns `fields` (name and the values that occur), `files`, `records` (file, id, value in each
    field), `sets` (probability, records, how many more records there are, evidence of each field
    in bits) and `entities` (id, own set, alternative sets); everything names others by position.
    A masked page has no values: its sets say for each field which of their records agree, and
    its evidence is rounded to whole bits, since exact odds would tell how common a value is.
    """
    shown = choose_sets(posterior, estimate)
    evidence = set_evidence(posterior, shown.owner, shown.member, len(shown)) / math.log(2)
    page = Page(posterior, shown, np.clip(evidence, -MOST_EVIDENCE, MOST_EVIDENCE), mask)
    alternatives, start = alternatives_of_entities(shown, estimate)
    order = np.lexsort((estimate.sizes == 1, estimate.probability))
    for entity in order.tolist():
        if page.bytes > bytes:
            break
        rows = np.unique(alternatives[start[entity] : start[entity + 1]])
        best = rows[np.argsort(-shown.probability[rows], kind="stable")][:ALTERNATIVES]
        page.add(estimate.entity_id[entity], entity, best.tolist())
    return page.content() | {"left_out": len(estimate) - len(page.entities)}


@dataclass(frozen=True)
class ShownSets:
    """Sets of records that a page may show: the clusters of the estimate, then other sets."""

    member: Int64s
    start: Int64s  # (S + 1,)
    probability: Floats  # (S,)

    def __len__(self) -> int:
        return len(self.probability)

    @property
    def owner(self) -> Int64s:
        """The set of each member."""
        return np.repeat(np.arange(len(self)), np.diff(self.start))

    def members(self, row: int) -> list[int]:
        """The records of one set."""
        return self.member[self.start[row] : self.start[row + 1]].tolist()


def choose_sets(posterior: Posterior, estimate: Estimate) -> ShownSets:
    """The clusters of the estimate, in its order, and after them the other probable sets."""
    found, total = posterior.sets, posterior.chains * posterior.draws
    likely = found.draws >= LEAST_PROBABILITY * total
    others = np.flatnonzero(
        likely & ~estimated_sets(estimate.entity, found) & (found.sets.size <= LARGEST_SHOWN)
    )
    more = found.sets.select(others)
    member, start = group_starts(
        estimate.entity.astype(np.int32), np.arange(len(estimate.entity)), len(estimate)
    )
    return ShownSets(
        np.concatenate([member, more.member.astype(np.int64)]),
        np.concatenate([start, start[-1] + more.start[1:]]),
        np.concatenate([estimate.probability, found.draws[others] / total]),
    )


def alternatives_of_entities(shown: ShownSets, estimate: Estimate) -> tuple[Int64s, Int64s]:
    """Sets besides the estimate's own that hold a record of each entity, grouped by entity."""
    own = int(shown.start[len(estimate)])
    entity = estimate.entity[shown.member[own:]].astype(np.int32)
    return group_starts(entity, shown.owner[own:], len(estimate))


class Page:
    """What a page holds so far; records, values and sets are numbered as they come."""

    def __init__(
        self, posterior: Posterior, shown: ShownSets, evidence: Floats, mask: bool
    ) -> None:
        self.files, self.parts = posterior.records.files, posterior.model.coded
        self.file = posterior.records.file
        self.ids = as_text(posterior.records.ids)
        self.codes = np.stack([part.codes for part in self.parts], axis=1)
        self.shown, self.evidence, self.mask = shown, evidence, mask
        self.bytes = 0
        self.entities: list[list[Any]] = []
        self.sets: dict[int, tuple[int, list[Any]]] = {}  # set: its place, what is said of it
        self.records: dict[int, tuple[int, list[Any]]] = {}
        self.levels: list[dict[int, int]] = [{} for _ in self.parts]

    def add(self, name: str, own: int, others: list[int]) -> None:
        """Add an entity with everything that it names."""
        entity = [name, self.place_set(own), [self.place_set(row) for row in others]]
        self.entities.append(self.weighed(entity))

    def weighed(self, item: list[Any]) -> list[Any]:
        """The item, its bytes counted."""
        self.bytes += len(json.dumps(item, ensure_ascii=False).encode())
        return item

    def place_set(self, row: int) -> int:
        """The place of a set on the page, where it is put if it is new."""
        if row not in self.sets:
            members = self.shown.members(row)
            beside = members[:LARGEST_SHOWN]
            bits = self.evidence[row].tolist() if len(members) > 1 else []
            item: list[Any] = [
                round(float(self.shown.probability[row]), 3),
                [self.place_record(record) for record in beside],
                len(members) - len(beside),
                [round(value) if self.mask else round(value, 1) for value in bits],
            ]
            if self.mask:
                item.append([agreement(self.codes[beside, c]) for c in range(len(self.parts))])
            self.sets[row] = len(self.sets), self.weighed(item)
        return self.sets[row][0]

    def place_record(self, record: int) -> int:
        """The place of a record on the page, where it is put if it is new."""
        if record not in self.records:
            item = [int(self.file[record]), self.ids[record].as_py()]
            if not self.mask:
                codes = self.codes[record].tolist()
                item += [self.place_level(column, code) for column, code in enumerate(codes)]
            self.records[record] = len(self.records), self.weighed(item)
        return self.records[record][0]

    def place_level(self, column: int, code: int) -> int:
        """The place of a value on the page; -1 if it is missing."""
        known = self.levels[column]
        if code >= 0 and code not in known:
            known[code] = len(known)
            self.weighed([self.value(column, code)])
        return known.get(code, -1)

    def value(self, column: int, code: int) -> str:
        """A level as text."""
        return str(self.parts[column].levels[code].as_py())

    def content(self) -> dict[str, Any]:
        """Everything as values that JSON holds."""
        return {
            "files": list(self.files),
            "fields": [
                {"name": part.name, "values": [self.value(column, code) for code in known]}
                for column, (part, known) in enumerate(zip(self.parts, self.levels, strict=True))
            ],
            "records": [item for _, item in self.records.values()],
            "sets": [item for _, item in self.sets.values()],
            "entities": self.entities,
            "masked": self.mask,
        }


def agreement(codes: Any) -> str:
    """Which records agree, as letters in order of appearance; a dash where a value is missing.

    >>> agreement([7, 7, -1, 3])
    'aa-b'
    """
    letters: dict[int, str] = {}
    return "".join(
        "-" if code < 0 else letters.setdefault(int(code), chr(ord("a") + len(letters)))
        for code in codes
    )
