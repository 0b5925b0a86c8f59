"""Data sets with known truth: drawn from the model, or shaped like the paper's survey."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
import pyarrow as pa

from smered.errors import ConfigError
from smered.layout import Bools, Floats, Int32s, Int64s

__all__ = ["PAPER_OVERLAP", "Simulation", "observe", "simulate", "survey"]

ID, ENTITY = "id", "entity"  # columns of a simulated table besides its fields


@dataclass(frozen=True)
class Simulation:
    """Simulated files and the truth about them.

    Each table has the columns `id`, `entity` (the truth, never a field) and the fields.
    """

    tables: Mapping[str, pa.Table]
    fields: tuple[str, ...]

    @property
    def truth(self) -> Int64s:
        """True entity of every record, file after file."""
        return np.concatenate([table[ENTITY].to_numpy() for table in self.tables.values()])


def observe(
    truth: Int32s, entity: Int64s, beta: Floats, theta: Sequence[Floats], rng: np.random.Generator
) -> tuple[Int32s, Bools]:
    """Draw what records show of their entities, and which values are distorted.

    truth (N, p): true level of each entity; entity (n,): entity of each record; beta (n, p) or
    (p,); theta: level probabilities of each field. Returns values (n, p) and distorted (n, p).
    """
    values = truth[entity].astype(np.int32)
    distorted = rng.random(values.shape) < beta
    for field, probabilities in enumerate(theta):
        rows = np.flatnonzero(distorted[:, field])
        values[rows, field] = rng.choice(len(probabilities), size=len(rows), p=probabilities)
    return values, distorted


def simulate(
    overlap: Mapping[Sequence[str], int],
    levels: Sequence[int] | Mapping[str, int],
    *,
    distortion: float | Sequence[float] = 0.02,
    missing: float = 0.0,
    duplicates: float = 0.0,
    mu: float = 1.0,
    seed: int = 0,
) -> Simulation:
    """Draw files from the model.

    `overlap` maps each set of files to the number of entities seen in exactly those files.
    `levels` gives the number of levels of each field, `distortion` the rate of all fields or of
    each. `missing` is the chance of a value being missing; `duplicates` the mean number of
    further records of an entity in a file that holds it. Level probabilities are Dirichlet(mu).
    """
    sizes = (
        levels if isinstance(levels, Mapping) else {f"f{i + 1}": m for i, m in enumerate(levels)}
    )
    beta = np.broadcast_to(np.asarray(distortion, np.float64), (len(sizes),))
    if not ((beta >= 0) & (beta <= 1)).all() or not 0 <= missing < 1 or duplicates < 0:
        raise ConfigError("distortion must be in [0, 1], missing in [0, 1), duplicates at least 0")
    if min(sizes.values(), default=0) < 1 or min(overlap.values(), default=0) < 0:
        raise ConfigError("give at least one field, one level in each, and no negative counts")
    rng = np.random.default_rng(seed)
    theta = [rng.dirichlet(np.full(m, mu)) for m in sizes.values()]
    patterns = [(pattern,) if isinstance(pattern, str) else tuple(pattern) for pattern in overlap]
    files = tuple(dict.fromkeys(chain.from_iterable(patterns)))
    pattern_of_entity = np.repeat(np.arange(len(patterns)), list(overlap.values()))
    rng.shuffle(pattern_of_entity)
    entities = len(pattern_of_entity)
    truth = np.stack([rng.choice(len(t), size=entities, p=t) for t in theta], axis=1).astype(
        np.int32
    )
    tables = {}
    for file in files:
        held = np.flatnonzero(
            np.array([file in pattern for pattern in patterns])[pattern_of_entity]
        )
        entity = np.repeat(held, 1 + rng.poisson(duplicates, len(held)))
        rng.shuffle(entity)
        values, _ = observe(truth, entity, beta, theta, rng)
        lost = rng.random(values.shape) < missing
        tables[file] = make_table(entity, dict(zip(sizes, values.T, strict=True)), lost)
    return Simulation(tables, tuple(sizes))


def make_table(
    entity: Int64s, columns: Mapping[str, Int32s], lost: Bools | None = None
) -> pa.Table:
    """Put one simulated file together."""
    data: dict[str, object] = {ID: np.arange(1, len(entity) + 1), ENTITY: entity}
    for position, (name, values) in enumerate(columns.items()):
        data[name] = pa.array(values, mask=None if lost is None else lost[:, position])
    return pa.table(data)


# The paper's survey: people seen in exactly these waves (its confusion matrix, last row).
PAPER_OVERLAP: Mapping[tuple[str, ...], int] = {
    ("1982",): 8396,
    ("1989",): 2959,
    ("1994",): 7572,
    ("1982", "1989"): 4464,
    ("1989", "1994"): 3929,
    ("1982", "1994"): 1511,
    ("1982", "1989", "1994"): 6114,
}

# Calibrated so that pairs of records of different people agree as often as in the paper: about
# 2,558 in every field (twins) and 353,536 in all but one (near-twins), and so that about 9% of
# the true pairs differ somewhere, mostly in state and office because people move.
STATES, MAIN_OFFICES, OFFICES = 50, 25, 35
STATE_DECAY = 0.153  # the share of a state falls by this rate with its rank
SECOND_OFFICE = 0.15  # share of a state's people served by an office other than its main one
WOMEN = 0.6
TWINS_KEPT = 0.3  # would-be twins that stay: independent attributes would make too many
MOVES = {"1989": 0.07, "1994": 0.05}  # share of people who moved since the wave before
ERRORS = {
    "sex": 0.0005,
    "day": 0.003,
    "month": 0.002,
    "year": 0.001,
    "state": 0.001,
    "office": 0.003,
}


def survey(
    seed: int = 0,
    *,
    distortion: float | None = None,
    share: float = 1.0,
    independent: bool = False,
    moving: float | None = None,
    right: Sequence[str] = (),
    twins: float = TWINS_KEPT,
) -> Simulation:
    """Simulate a three-wave survey shaped like the paper's: 57,077 records of 34,945 people.

    Each person appears in exactly the waves that `PAPER_OVERLAP` counts, once in each. Sex and
    date of birth stay, state and office change together when a person moves, and every value may
    be recorded wrongly. The office depends on the state, so fields are not independent.

    With `distortion` nobody moves, and every value of every field is distorted at that rate.
    `moving` is the share of people who move from each wave to the next; the fields named in `right`
    are never recorded wrongly. `twins` is the share of people who equal another in every field that
    stay; 1 draws all people alike.
    `share` takes so many of the people; `independent` deals each field out anew among them, so
    that its distribution stays and its dependence on the others goes.
    """
    for name, rate in {"distortion": distortion, "moving": moving}.items():
        if not (rate is None or 0 <= rate <= 1):
            raise ConfigError(f"{name} = {rate} must be in [0, 1]")
    if not 0 < share <= 1:
        raise ConfigError(f"share = {share} must be in (0, 1]")
    rng = np.random.default_rng(seed)
    waves = list(dict.fromkeys(chain.from_iterable(PAPER_OVERLAP)))
    counts = [round(count * share) for count in PAPER_OVERLAP.values()]
    pattern = np.repeat(np.arange(len(PAPER_OVERLAP)), counts)
    rng.shuffle(pattern)
    entry = np.array([waves.index(files[0]) for files in PAPER_OVERLAP])[pattern]
    people = len(pattern)
    person: dict[str, Int32s] = {"sex": (rng.random(people) < WOMEN).astype(np.int32)}
    person["day"], person["month"] = birthdays(people, rng)
    person["year"] = birth_years(entry, rng)
    person["state"] = rng.choice(STATES, people, p=state_shares()).astype(np.int32)
    person["office"] = offices(person["state"], rng)
    thin_twins(person, twins, rng)
    if independent:
        person = {field: rng.permutation(values) for field, values in person.items()}

    marginal = {field: np.bincount(values) / people for field, values in person.items()}
    tables = {}
    for wave in waves:
        rate = MOVES.get(wave, 0.0) if distortion is None else 0.0
        if moving is not None:
            rate = moving if wave in MOVES else 0.0
        moved = np.flatnonzero(rng.random(people) < rate)
        person["state"][moved] = rng.choice(STATES, len(moved), p=state_shares())
        person["office"][moved] = offices(person["state"][moved], rng)
        entity = np.flatnonzero(np.array([wave in files for files in PAPER_OVERLAP])[pattern])
        rng.shuffle(entity)
        truth = np.stack(list(person.values()), axis=1)
        rates = np.array([ERRORS[f] if distortion is None else distortion for f in person])
        rates[[field in right for field in person]] = 0.0
        values, _ = observe(truth, entity, rates, list(marginal.values()), rng)
        tables[wave] = make_table(entity, dict(zip(person, values.T, strict=True)))
    return Simulation(tables, tuple(person))


def state_shares() -> Floats:
    """Share of each state in the population."""
    weights = np.exp(-STATE_DECAY * np.arange(STATES))
    return weights / weights.sum()


def offices(state: Int32s, rng: np.random.Generator) -> Int32s:
    """Choose each person's office among the two that serve the state."""
    main, second = (
        state // (STATES // MAIN_OFFICES),
        MAIN_OFFICES + state % (OFFICES - MAIN_OFFICES),
    )
    return np.where(rng.random(len(state)) < SECOND_OFFICE, second, main).astype(np.int32)


def birthdays(people: int, rng: np.random.Generator) -> tuple[Int32s, Int32s]:
    """Draw days and months of birth, every day of the year alike."""
    lengths = np.array([31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31])
    starts = np.concatenate(([0], np.cumsum(lengths)))
    date = rng.integers(starts[-1], size=people)
    month = np.searchsorted(starts, date, side="right")
    return (date - starts[month - 1] + 1).astype(np.int32), month.astype(np.int32)


def birth_years(entry: Int64s, rng: np.random.Generator) -> Int32s:
    """Draw years of birth by wave of entry: the first is 65 or older, later ones joined since."""
    oldest = 1917 - np.minimum(np.abs(rng.normal(0, 8, len(entry))).astype(int), 37)
    joined_1989 = 1924 - rng.integers(7, size=len(entry))
    joined_1994 = 1929 - rng.integers(5, size=len(entry))
    return np.choose(entry, [oldest, joined_1989, joined_1994]).astype(np.int32)


def thin_twins(person: dict[str, Int32s], kept: float, rng: np.random.Generator) -> None:
    """Give people who equal another in every field a new birthday, but for a share of them."""
    rows = np.stack(list(person.values()), axis=1)
    _, first, group = np.unique(rows, axis=0, return_index=True, return_inverse=True)
    later = np.flatnonzero(first[group] != np.arange(len(rows)))
    redrawn = later[rng.random(len(later)) >= kept]
    person["day"][redrawn], person["month"][redrawn] = birthdays(len(redrawn), rng)
