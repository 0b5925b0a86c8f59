"""Fields of text: how fast similar values are found, and how fast sweeps with texts are."""

import time
from pathlib import Path

import numpy as np
import pyarrow as pa

from benchmarks.accuracy import KNOWN, read
from benchmarks.mixing import FOLDER
from benchmarks.table import Row
from smered.diagnostics import ess_bulk
from smered.execute import make_executor
from smered.fields import Categorical, Text
from smered.model import Model
from smered.priors import ClusterSizes
from smered.records import Records
from smered.sampler import Settings, run_chain
from smered.similar import find_similar

RECORDS, SWEEPS, BEST_OF = 100_000, 40, 3
SYLLABLES = [a + b + c for a in "bdfgklmnprstvz" for b in "aeiou" for c in ("", "n", "r", "s", "l")]


def made_up(count: int, rng: np.random.Generator) -> list[str]:
    """Different names of two to four syllables."""
    found: dict[str, None] = {}
    while len(found) < count:
        lengths = rng.integers(2, 5, count)
        parts = rng.integers(0, len(SYLLABLES), (count, 4))
        for row, length in zip(parts.tolist(), lengths.tolist(), strict=True):
            found["".join(SYLLABLES[i] for i in row[:length])] = None
    return list(found)[:count]


def with_typo(name: str, rng: np.random.Generator) -> str:
    """A name with one letter wrong, or two exchanged."""
    at = int(rng.integers(len(name) - 1))
    if rng.random() < 0.5:
        return name[:at] + name[at + 1] + name[at] + name[at + 2 :]
    return name[:at] + "abcdefghijklmnopqrstuvwxyz"[rng.integers(26)] + name[at + 1 :]


def register(records: int, seed: int = 0) -> pa.Table:
    """A register in which every fifth record is a duplicate; one name in twelve has a typo."""
    rng = np.random.default_rng(seed)
    people = records * 4 // 5
    table = {}
    who = np.concatenate((np.arange(people), rng.integers(0, people, records - people)))
    for column, distinct in {"given": 3000, "family": 20_000}.items():
        names = made_up(distinct, rng)
        common = 1.0 / np.arange(1, distinct + 1) ** 0.8
        own = rng.choice(distinct, people, p=common / common.sum())
        table[column] = [
            with_typo(names[i], rng) if wrong else names[i]
            for i, wrong in zip(own[who], rng.random(records) < 1 / 12, strict=True)
        ]
    for column, levels in {"day": 31, "month": 12, "year": 90, "town": 200}.items():
        own = rng.integers(0, levels, people)[who]
        wrong = rng.random(records) < 0.02
        table[column] = np.where(wrong, rng.integers(0, levels, records), own)
    return pa.table(table)


def sweeps_with_texts() -> list[Row]:
    """Sweeps of 100,000 informed proposals over 100,000 records, two fields of text."""
    table = register(RECORDS)
    records = Records.from_frames(table, columns=table.column_names)
    rest = [Categorical(name, a=1, b=49) for name in table.column_names[2:]]
    texts = [Text("given", a=1, b=49), Text("family", a=1, b=49)]
    begun = time.perf_counter()
    model = Model(records, [*texts, *rest], prior=ClusterSizes())
    layout = model.layout()
    prepared = time.perf_counter() - begun
    uniform = float(layout.proposals.sum()) * layout.uniform_share / 2048
    best = np.inf
    execute = make_executor(model, layout, 1)
    settings = Settings(
        draws=SWEEPS * BEST_OF, burn_in=40, chains=1, proposals=round(RECORDS + uniform)
    )
    for step in run_chain(model, settings, 0, execute):
        if step.draw is None:
            begun = time.perf_counter()
        elif step.draw % SWEEPS == SWEEPS - 1:
            now = time.perf_counter()
            best, begun = min(best, (now - begun) / SWEEPS), now
    values = sum(len(part.share) for part in model.coded[:2])
    return [
        Row(f"two fields of text, {values:,} values: setting up", prepared, "s", ""),
        Row("two fields of text: sweeps of 100,000 informed proposals", 1 / best, "per s", ">= 5"),
    ]


def many_values() -> list[Row]:
    """Similar ones among a million different names."""
    names = made_up(1_000_000, np.random.default_rng(1))
    begun = time.perf_counter()
    one, _, _ = find_similar(names, "damerau", 0.8)
    seconds = time.perf_counter() - begun
    return [Row(f"a million names, {len(one):,} similar pairs: found in", seconds, "s", "")]


def small_register() -> list[Row]:
    """RLdata500 as `smered init` sets it up, where it is at hand."""
    path = Path(FOLDER) / "RLdata500.csv"
    if not path.exists():
        return []
    model, _ = read(path, KNOWN["RLdata500"])
    found = []
    for seed in range(BEST_OF):
        execute = make_executor(model, model.layout(), 1)
        entities, begun = [], 0.0
        for step in run_chain(model, Settings(draws=4000, burn_in=300, seed=seed), 0, execute):
            if step.draw == 0:
                begun = time.perf_counter()
            elif step.draw is not None:
                entities.append(float(step.state.entities))
        found.append(ess_bulk(np.array([entities])) / (time.perf_counter() - begun))
    return [Row("RLdata500 with texts: effective draws of N", max(found), "per s", ">= 200")]


def names() -> list[Row]:
    return sweeps_with_texts() + many_values() + small_register()
