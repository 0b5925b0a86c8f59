"""The clusters of a report: who they hold, what else they may be, and why; most doubtful first."""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from smered.layout import Floats, Int64s
from smered.posterior import Posterior
from smered.posterior.estimate import Estimate, estimated_sets
from smered.posterior.evidence import set_evidence
from smered.posterior.sets import group_starts
from smered.records import as_text

__all__ = ["as_script_data", "collect_cards"]

LEAST_PROBABILITY = 0.05  # of a set that is named as an alternative
ALTERNATIVES = 4  # sets named for each entity besides its own
LARGEST_SHOWN = 30  # records of a set that are shown side by side
MOST_NAMED = 500  # further records of a set that are named
LEAST_BYTES = 50  # that an entity takes on a page


def collect_cards(
    posterior: Posterior, estimate: Estimate, *, bytes: int, mask: bool = False
) -> dict[str, Any]:
    """As many entities as fit into so many bytes of JSON, the least certain first.

    Returns `fields` (name and the values that occur), `files`, `records` (file, id, and for those
    shown the value in each field), `sets` (probability, records shown, records named, how many
    more there are, evidence of each field in bits, none where they contradict each other) and
    `entities` (id, own set, alternative sets); everything names others by position. A masked page
    has no values: its sets say for each field which of their records agree, and of the evidence
    only which way it points, since odds would tell how common a value is.
    """
    order = np.lexsort((estimate.sizes == 1, estimate.probability))
    likely = order[: max(bytes // LEAST_BYTES, 1)]
    shown = choose_sets(posterior, estimate, likely)
    bits = set_evidence(posterior, shown.owner, shown.member, len(shown)) / math.log(2)
    page = Page(posterior, shown, bits, mask)
    others, start = alternatives_of_entities(shown, estimate, likely)
    for number, entity in enumerate(likely.tolist()):
        if page.bytes > bytes:
            break
        rows = set(others[start[number] : start[number + 1]].tolist())
        best = sorted(rows, key=lambda row: (-shown.probability[row], row))[:ALTERNATIVES]
        page.add(estimate.entity_id[entity], number, best)
    return page.content() | {"left_out": len(estimate) - len(page.entities)}


@dataclass(frozen=True)
class ShownSets:
    """Sets of records that a page may show: clusters of the estimate, then other sets."""

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


def choose_sets(posterior: Posterior, estimate: Estimate, entities: Int64s) -> ShownSets:
    """The clusters of some entities, in their order, and after them other probable sets."""
    found, total = posterior.sets, posterior.chains * posterior.draws
    place = places(estimate, entities)
    probable = (found.draws >= LEAST_PROBABILITY * total) & ~estimated_sets(estimate.entity, found)
    concerned = np.zeros(len(found), np.bool_)
    concerned[found.sets.owner[place[estimate.entity[found.sets.member]] >= 0]] = True
    rows = np.flatnonzero(probable & concerned)
    more = found.sets.select(rows)
    record = np.flatnonzero(place[estimate.entity] >= 0)
    member, start = group_starts(
        place[estimate.entity[record]].astype(np.int32), record, len(entities)
    )
    return ShownSets(
        np.concatenate([member, more.member.astype(np.int64)]),
        np.concatenate([start, start[-1] + more.start[1:]]),
        np.concatenate([estimate.probability[entities], found.draws[rows] / total]),
    )


def places(estimate: Estimate, entities: Int64s) -> Int64s:
    """The position of each entity among some, -1 for all others."""
    place = np.full(len(estimate), -1, np.int64)
    place[entities] = np.arange(len(entities))
    return place


def alternatives_of_entities(
    shown: ShownSets, estimate: Estimate, entities: Int64s
) -> tuple[Int64s, Int64s]:
    """Sets besides their own that hold a record of some entities, grouped by entity."""
    own = int(shown.start[len(entities)])
    place = places(estimate, entities)[estimate.entity[shown.member[own:]]]
    held = place >= 0
    return group_starts(place[held].astype(np.int32), shown.owner[own:][held], len(entities))


class Page:
    """What a page holds so far; records, values and sets are numbered as they come."""

    def __init__(self, posterior: Posterior, shown: ShownSets, bits: Floats, mask: bool) -> None:
        self.files, self.parts = posterior.records.files, posterior.model.coded
        members = np.unique(shown.member)
        names = as_text(posterior.records.ids.take(pa.array(members))).to_pylist()
        files = posterior.records.file[members].tolist()
        codes = np.stack([part.codes[members] for part in self.parts], axis=1)
        self.names = dict(zip(members.tolist(), zip(files, names, strict=True), strict=True))
        self.codes = dict(zip(members.tolist(), codes.tolist(), strict=True))
        self.shown, self.bits, self.mask = shown, bits, mask
        self.bytes = 0
        self.entities: list[list[Any]] = []
        self.sets: dict[int, tuple[int, list[Any]]] = {}  # set: its place, what is said of it
        self.records: dict[int, tuple[int, list[Any]]] = {}
        self.levels: list[dict[int, int]] = [{} for _ in self.parts]

    def add(self, name: str, own: int, others: list[int]) -> None:
        """Add an entity with everything that it names."""
        entity: list[Any] = [name, self.place_set(own), [self.place_set(r) for r in others]]
        self.entities.append(entity)
        self.bytes += len(name) + 8 + written(entity[1:2]) + written(entity[2])

    def place_set(self, row: int) -> int:
        """The place of a set on the page, where it is put if it is new."""
        if row not in self.sets:
            members = self.shown.members(row)
            beside, named = members[:LARGEST_SHOWN], members[LARGEST_SHOWN:][:MOST_NAMED]
            item: list[Any] = [
                round(float(self.shown.probability[row]), 3),
                [self.place_record(record, with_values=True) for record in beside],
                [self.place_record(record) for record in named],
                len(members) - len(beside) - len(named),
                self.evidence(row) if len(members) > 1 else [],
            ]
            if self.mask:
                values = zip(*(self.codes[record] for record in beside), strict=True)
                item.append([agreement(codes) for codes in values])
            self.sets[row] = len(self.sets), item
            self.bytes += 12 + written(item[1]) + written(item[2]) + written(item[4])
            self.bytes += sum(len(letters) + 3 for letters in (item[5] if self.mask else ()))
        return self.sets[row][0]

    def evidence(self, row: int) -> list[float | None]:
        """What each field says of a set, in bits or masked; none where it is a contradiction."""
        found = self.bits[row].tolist()
        if self.mask:
            return [float(np.sign(round(bits, 1))) for bits in found]
        return [round(bits, 1) if math.isfinite(bits) else None for bits in found]

    def place_record(self, record: int, *, with_values: bool = False) -> int:
        """The place of a record on the page, where it is put if it is new."""
        if record not in self.records:
            file, name = self.names[record]
            self.records[record] = len(self.records), [file, name]
            self.bytes += 8 + text_bytes(name)
        place, item = self.records[record]
        if with_values and not self.mask and len(item) == 2:
            item += [
                self.place_level(column, code) for column, code in enumerate(self.codes[record])
            ]
            self.bytes += written(item[2:])
        return place

    def place_level(self, column: int, code: int) -> int:
        """The place of a value on the page; -1 if it is missing."""
        known = self.levels[column]
        if code >= 0 and code not in known:
            known[code] = len(known)
            self.bytes += text_bytes(self.value(column, code))
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


def written(numbers: list[Any]) -> int:
    """Bytes of a list of numbers in JSON, about."""
    return 2 + sum(len(str(number)) + 1 for number in numbers)


def text_bytes(text: str) -> int:
    """Bytes of a text in JSON."""
    plain = text.isascii() and text.isalnum()
    return 3 + len(text) if plain else 1 + len(as_script_data(text).encode())


def agreement(codes: Sequence[int]) -> str:
    """Which records agree, as letters in order of appearance; a dash where a value is missing.

    >>> agreement([7, 7, -1, 3])
    'aa-b'
    """
    letters: dict[int, str] = {}
    return "".join(
        "-" if code < 0 else letters.setdefault(int(code), chr(ord("a") + len(letters)))
        for code in codes
    )


def as_script_data(content: Any) -> str:
    r"""JSON that can stand inside a script element, whatever texts it holds.

    >>> print(as_script_data(["</script>"]))
    ["\u003c/script\u003e"]
    """
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for sign in "<>&\u2028\u2029":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text
