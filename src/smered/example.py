"""Three small files to try the program on: overlapping lists of people, with errors and gaps."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from smered.errors import ConfigError
from smered.simulate import ENTITY, ID, simulate
from smered.store.disk import write_csv

__all__ = ["write_example"]

OVERLAP: dict[Sequence[str], int] = {
    ("clinic",): 60,
    ("register",): 50,
    ("survey",): 40,
    ("clinic", "register"): 70,
    ("clinic", "register", "survey"): 80,
}
TOWNS = ["Ashby", "Barrow", "Corby", "Dalton", "Elmham", "Farnley", "Garth", "Hadley", "Ilmer"]
TOWNS += ["Kirkby", "Langton", "Marston", "Norby", "Oakley", "Penrith", "Ribston", "Selby"]
TOWNS += ["Thornby", "Upton", "Wetherby"]
LEVELS = {
    "sex": ["f", "m"],
    "day": [str(day) for day in range(1, 32)],
    "month": [str(month) for month in range(1, 13)],
    "year": [str(year) for year in range(1930, 1970)],
    "town": TOWNS,
}


def write_example(folder: Path, seed: int = 7) -> list[Path]:
    """Write clinic.csv, register.csv and survey.csv; their column `truth` says who is who."""
    data = simulate(
        OVERLAP,
        {name: len(levels) for name, levels in LEVELS.items()},
        distortion=0.02,
        missing=0.01,
        seed=seed,
    )
    paths = [folder / f"{file}.csv" for file in data.tables]
    for path in paths:
        if path.exists():
            raise ConfigError(f"{path} exists already; choose another folder")
    for path, table in zip(paths, data.tables.values(), strict=True):
        columns: dict[str, pa.Array] = {ID: table[ID], "truth": table[ENTITY]}
        for name, levels in LEVELS.items():
            codes = table[name].combine_chunks()
            columns[name] = pa.array(levels).take(codes)
        if path.stem == "survey":
            years = table["year"].fill_null(len(LEVELS["year"]) // 2).to_numpy()
            noise = np.random.default_rng([seed, 2]).normal(0, 6000, len(table))
            columns["income"] = pa.array((20_000 + 400 * years + noise).round(-2).astype(np.int64))
        write_csv(path, pa.table(columns))
    return paths
