"""What follows a linkage: a regression over draws, and the size of the population."""

import time
import warnings

import numpy as np
import pyarrow as pa

import smered
from benchmarks.table import Row
from smered.propagate import linear

DRAWS = 200


def propagated() -> list[Row]:
    """Two hundred draws of the survey through a linear regression, and three ways to its size."""
    warnings.simplefilter("ignore")
    data = smered.simulate.survey()
    rng = np.random.default_rng(0)
    person = rng.normal(size=int(data.truth.max()) + 1)
    tables = {
        wave: table.append_column(
            "score", pa.array(person[table["entity"].to_numpy()] + rng.normal(size=len(table)))
        )
        for wave, table in data.tables.items()
    }
    posterior = smered.link(
        tables, data.fields, id="id", blocks=["sex", "year"], duplicates=False, draws=100,
        burn_in=100, chains=2,
    )  # fmt: skip
    rows = []
    begun = time.perf_counter()
    posterior.propagate(linear("score_1994 ~ score_1982 + year"), DRAWS, progress=False)
    rows.append(Row(f"survey: linear regression over {DRAWS} draws", since(begun), "s", "< 60"))
    begun = time.perf_counter()
    posterior.population(draws=DRAWS)
    rows.append(Row(f"survey: population by three methods, {DRAWS} draws", since(begun), "s", ""))
    return rows


def since(begun: float) -> float:
    return time.perf_counter() - begun
