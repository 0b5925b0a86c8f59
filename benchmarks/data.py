"""Data sets of any size for benchmarks."""

import numpy as np
import pyarrow as pa

from smered.demo import paper_model
from smered.model import Model
from smered.records import Records
from smered.simulate import survey


def survey_model() -> Model:
    """The paper's model of the simulated survey."""
    return paper_model(survey())


def blocked_table(records: int, *, block_size: int = 650, seed: int = 0) -> dict[str, pa.Table]:
    """Two files of `records` in all, five fields, blocks of about `block_size` records.

    People appear in one file or in both; 2% of the values of a field are wrong.
    """
    rng = np.random.default_rng(seed)
    people = records * 2 // 3
    blocks = max(1, records // block_size)
    truth = {"block": rng.integers(0, blocks, people)}
    truth |= {name: rng.integers(0, m, people) for name, m in LEVELS.items()}
    tables = {}
    for file in ("a", "b"):
        seen = rng.permutation(people)[: records // 2]
        columns = {"block": truth["block"][seen]}
        for name, m in LEVELS.items():
            wrong = rng.random(len(seen)) < 0.02
            columns[name] = np.where(wrong, rng.integers(0, m, len(seen)), truth[name][seen])
        tables[file] = pa.table(columns)
    return tables


LEVELS = {"day": 31, "month": 12, "state": 50, "office": 35, "group": 20}


def blocked_model(records: int, **settings: object) -> Model:
    read = Records.from_frames(blocked_table(records), columns=[*LEVELS], blocks="block")
    return Model(read, [*LEVELS], duplicates=False, **settings)
