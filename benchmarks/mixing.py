"""How well chains mix: effective draws per second of one core, on four kinds of data.

Public files are looked for in the folder that SMERED_DATA names, or else in shared/data beside the
project; those that are not there are left out.
"""

import math
import os
from pathlib import Path

import numpy as np
import pyarrow.csv as pa_csv

from benchmarks.data import survey_model
from benchmarks.speed import follow
from benchmarks.table import Row
from smered.diagnostics import ess_bulk, mcse
from smered.fields import Categorical
from smered.model import Model
from smered.pairs import RotatingBlocks
from smered.priors import UniformLabels
from smered.records import Records
from smered.simulate import simulate, survey

FOLDER = Path(os.environ.get("SMERED_DATA", Path(__file__).parents[2] / "shared" / "data"))
BURN_IN, DRAWS = 300, 4000


def public_model(name, columns, **settings):
    """The model of a public file, or None where it is not at hand."""
    path = FOLDER / name
    if not path.exists():
        return None
    settings = {"duplicates": True, "blocks": ()} | settings
    records = Records.from_frames(
        pa_csv.read_csv(path), columns=columns, id="rec_id", file_column="source",
        blocks=settings["blocks"],
    )  # fmt: skip
    return Model(records, columns, duplicates=settings["duplicates"])


def duplicates_model():
    """One file in which every person has three records on average."""
    data = simulate({("register",): 7000}, [50, 12, 31, 40, 9, 20], duplicates=2.0, seed=1)
    records = Records.from_frames(data.tables, columns=data.fields, id="id")
    return Model(records, data.fields)


def data_sets():
    return {
        "survey": survey_model(),
        "RLdata500": public_model("RLdata500.csv",
                                  ["fname_c1", "lname_c1", "by", "bm", "bd"]),
        "italy": public_model("italy.csv", ["SEX", "ANASC", "NASCREG", "CIT", "STUDIO", "Q",
                                            "QUAL", "SETT", "IREG"],
                              blocks="IREG", duplicates=False),
        "many duplicates": duplicates_model(),
    }  # fmt: skip


def patterns(entity, file_bit, patterns_there):
    """How many entities are in exactly these files, for every combination of files."""
    seen = np.zeros(len(entity), np.int64)
    np.bitwise_or.at(seen, entity, file_bit)
    return np.bincount(seen, minlength=patterns_there)[1:]


def mixing():
    """Effective draws per second of N, of the slowest overlap count, and of the slowest rate."""
    rows = []
    for name, model in data_sets().items():
        if model is None:
            continue
        overlaps = []
        file_bit = 1 << model.records.file[model.order].astype(np.int64)
        combinations = 1 << len(model.records.files)

        def look(step, kept=overlaps, bits=file_bit, count=combinations):
            kept.append(patterns(step.state.entity, bits, count))

        draws, seconds = follow(model, None, DRAWS, 1, 0, BURN_IN, BURN_IN, look)
        usual = np.sort(seconds)[: len(seconds) // 2].mean()
        rows.append(
            Row(f"{name}: a sweep of {len(model.records):,} records", usual * 1e3, "ms", "")
        )

        def per_second(trace, usual=usual):
            varies = np.ptp(trace) > 0
            return (
                ess_bulk(np.asarray(trace, float)[None]) / len(trace) / usual
                if varies
                else math.inf
            )

        rates = {key: per_second([d[key] for d in draws]) for key in draws[0] if key != "N"}
        slowest = min(rates, key=rates.get)
        counts = np.array(overlaps[BURN_IN:]).T
        target = ">= 20" if name == "survey" else ""
        rows += [
            Row(
                f"{name}: effective draws of N", per_second([d["N"] for d in draws]), "1/s", target
            ),
            Row(f"{name}: of the slowest overlap count", min(map(per_second, counts)), "1/s", ""),
            Row(f"{name}: of the slowest rate, {slowest}", rates[slowest], "1/s", ""),
        ]
    return rows


def rotating():
    """The survey by blocks, without blocks by candidates, and in rotating blocks: one posterior."""
    blocked = survey_model()
    simulation = survey()
    records = Records.from_frames(simulation.tables, columns=simulation.fields, id="id")
    fields = [
        Categorical(name, a=5, b=np.inf if name in ("sex", "year") else 10, mu=1)
        for name in simulation.fields
    ]
    whole = Model(records, fields, duplicates=False, prior=UniformLabels())
    rows, means = [], {}
    for name, model in (
        ("blocked", blocked),
        ("one block, candidates", whole),
        ("rotating blocks", whole.with_pairs(RotatingBlocks())),
    ):
        chains, usual = [], math.inf
        for chain in (0, 1):
            draws, seconds = follow(model, None, 1500, 1, chain, 500, 500)
            chains.append([draw["N"] for draw in draws])
            usual = min(usual, np.sort(seconds)[: len(seconds) // 2].mean())
        trace = np.array(chains, float)
        means[name] = trace.mean(), mcse(trace)
        worth = ess_bulk(trace) / trace.size / usual
        rows += [
            Row(f"{name}: a sweep", usual * 1e3, "ms", ""),
            Row(f"{name}: effective draws of N", worth, "1/s", ""),
            Row(f"{name}: mean of N (error {means[name][1]:.1f})", means[name][0], "", ""),
        ]
    for name in list(means)[1:]:
        (one, one_error), (two, two_error) = means["blocked"], means[name]
        distance = abs(one - two) / np.hypot(one_error, two_error)
        rows.append(Row(f"{name} against blocked", distance, "standard errors", "< 3"))
    return rows
