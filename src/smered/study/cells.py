"""The runs that a study is made of, and what is kept of each."""

import time
import warnings
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from smered.diagnostics import ess_bulk, rhat
from smered.errors import ConfigError, ConvergenceWarning
from smered.evaluate import evaluate
from smered.evaluate.metrics import Links, links, pairs_within
from smered.fields import Categorical
from smered.layout import Floats, Int64s
from smered.model import Model
from smered.posterior import Posterior
from smered.posterior.estimate import size_pairs
from smered.priors import (
    ClusterSizes,
    Ewens,
    PitmanYor,
    PriorChoice,
    UniformLabels,
    UniformPartitions,
)
from smered.query import matching_sets
from smered.records import Records, number_rows
from smered.run import sample
from smered.sampler import Step
from smered.simulate import Simulation, survey

__all__ = ["DISTORTIONS", "SIZES", "Cell", "Size", "cells", "run_cell"]

BLOCKS = ("sex", "year")
DISTORTIONS = (0.0, 0.0025, 0.005, 0.01, 0.02, 0.05)  # the paper's levels
RECORD = 10_084  # of 1982: the record whose matching sets the paper shows
STUCK = 999.0  # R-hat of chains that stay in different places
MOST_DRAWS_KEPT = 500  # of N, evenly spaced, for densities


@dataclass(frozen=True)
class Size:
    """How much a study does."""

    share: float  # of the survey's people
    small_share: float  # where many replicates are wanted
    replicates: int
    small_replicates: int
    burn_in: int
    draws: int
    application_burn_in: int
    application_draws: int


SIZES = {
    "quick": Size(0.1, 0.02, 1, 2, 60, 100, 100, 200),
    "full": Size(1.0, 0.1, 3, 10, 150, 300, 600, 1400),
}


@dataclass(frozen=True)
class Cell:
    """One run: the data it simulates, the model it fits, and how long it samples."""

    name: str
    part: str
    burn_in: int
    draws: int
    chains: int = 2
    seed: int = 0  # of the data
    sampling_seed: int = 0
    share: float = 1.0
    distortion: float | None = None
    independent: bool = False
    combined: bool = False  # all waves as one file
    duplicates: bool = False
    blocks: tuple[str, ...] = BLOCKS
    a: float = 5.0
    b: float = 10.0
    mu: float = 1.0
    prior: PriorChoice = field(default_factory=UniformLabels)

    def settings(self) -> dict[str, Any]:
        """Everything as values that JSON holds."""
        prior = {"prior": type(self.prior).__name__}
        return {k: v for k, v in asdict(self).items() if k != "prior"} | prior


def cells(size: Size, seed: int) -> Iterator[Cell]:
    """All runs of a study."""
    usual = Cell("", "simulation", size.burn_in, size.draws, seed=seed, share=size.share)
    for distortion in DISTORTIONS:
        for replicate in range(size.replicates):
            name = f"distortion-{100 * distortion:g}-{replicate}"
            yield replace(usual, name=name, seed=seed + replicate, distortion=distortion)
    small = replace(usual, part="coverage", share=size.small_share)
    own = replace(small, independent=True, blocks=())
    learned = replace(own, prior=ClusterSizes(files=True), a=1.0, b=49.0)
    for kind, cell in (("survey", small), ("model", own), ("learned", learned)):
        for distortion in DISTORTIONS:
            for replicate in range(size.small_replicates):
                name = f"coverage-{kind}-{100 * distortion:g}-{replicate}"
                yield replace(cell, name=name, seed=seed + replicate, distortion=distortion)
    smere = Cell("SMERE", "application", size.application_burn_in, size.application_draws,
                 chains=4, seed=seed, share=size.share)  # fmt: skip
    yield smere
    yield replace(smere, name="SMERED", duplicates=True)
    yield replace(smere, name="combined", duplicates=True, combined=True, sampling_seed=1)
    yield from sensitivity(replace(usual, part="sensitivity"))


def sensitivity(base: Cell) -> Iterator[Cell]:
    """The application's first run with one setting after the other changed."""
    for a, b in ((1, 1), (1, 10), (1, 99), (5, 10), (5, 100), (5, 1000), (50, 100), (50, 1000)):
        yield replace(base, name=f"rates Beta({a}, {b})", a=a, b=b)
    for mu in (0.1, 10.0):
        yield replace(base, name=f"levels Dirichlet({mu:g})", mu=mu)
    priors: dict[str, PriorChoice] = {
        "uniform partitions": UniformPartitions(),
        "Ewens, learned": Ewens(),
        "Pitman-Yor, learned": PitmanYor(),
    }
    for name, prior in priors.items():
        yield replace(base, name=f"prior: {name}", prior=prior)
    for blocks in (("sex",), ("year",), ("sex", "month"), ()):
        yield replace(base, name=f"blocks: {' and '.join(blocks) or 'none'}", blocks=blocks)


def make_model(cell: Cell, data: Simulation) -> Model:
    """The model of a cell. Columns that make blocks are never distorted, as in the paper."""
    if cell.combined:
        table = pa.concat_tables(data.tables.values())
        records = Records.from_frames(table, columns=data.fields, blocks=cell.blocks)
    else:
        records = Records.from_frames(data.tables, columns=data.fields, id="id", blocks=cell.blocks)
    fields = [
        Categorical(name, a=cell.a, b=None if name in cell.blocks else cell.b, mu=cell.mu)
        for name in data.fields
    ]
    return Model(records, fields, duplicates=cell.duplicates, prior=cell.prior)


def run_cell(cell: Cell, threads: int) -> dict[str, Any]:
    """Simulate, sample, compare with the truth; return what the tables and figures need."""
    data = survey(
        cell.seed, distortion=cell.distortion, share=cell.share, independent=cell.independent
    )
    model, truth = make_model(cell, data), data.truth
    every: list[list[int]] = [[] for _ in range(cell.chains)]

    def observe(step: Step) -> None:
        every[step.chain].append(step.state.entities)

    started = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the page tells R-hat of every run
        posterior = sample(
            model, burn_in=cell.burn_in, draws=cell.draws, chains=cell.chains,
            seed=cell.seed + cell.sampling_seed,
            threads=threads, observe=observe,
        )  # fmt: skip
    seconds = time.perf_counter() - started
    if (posterior.chains, posterior.draws) != (cell.chains, cell.draws):
        raise KeyboardInterrupt  # sampling ended early: no result
    estimate = posterior.estimate()
    found = evaluate(posterior, truth, estimate)
    draws = posterior.entities().draws
    pairs = posterior.sets.pairs
    kept = draws.ravel()[:: max(draws.size // MOST_DRAWS_KEPT, 1)]
    first_wave = len(next(iter(data.tables.values())))
    result = {
        "cell": cell.settings(),
        "records": len(truth),
        "seconds": seconds,
        "evaluation": found.to_dict(),
        "entities": {"draws": kept.astype(int).tolist(), "sd": posterior.entities().sd},
        "rhat": known(rhat(draws)),
        "effective": known(ess_bulk(draws)),
        "apart": split_by_blocks(model, truth),
        "within_waves": linked_within_waves(data, pairs, cell.chains * cell.draws),
        "threads": threads,
    }
    if cell.part == "application":
        result |= {
            "traces": every,
            "diagnostics": posterior.diagnostics().sentence,
            "exact_matching": asdict(exact_matching(model, truth)),
            "look_alikes": look_alikes(model, truth),
            "false_between": false_between_waves(data, posterior),
            "differing": found_by_difference(model, truth, pairs, cell.chains * cell.draws),
            "matching_sets": matching_sets(posterior, min(RECORD, first_wave) - 1, 5),
        }
    return result


def known(value: float) -> float | None:
    """A number that JSON holds: nothing where there are too few draws, 999 for infinity."""
    return None if np.isnan(value) else min(value, STUCK)


def split_by_blocks(model: Model, truth: Int64s) -> float:
    """Share of the true links whose records are in different blocks: they cannot be found."""
    together = number_rows(
        [model.records.block.astype(np.int32), truth.astype(np.int32)], len(truth)
    )
    return 1 - pairs_within(together) / pairs_within(truth)


def linked_within_waves(
    data: Simulation, pairs: tuple[Int64s, Int64s, Int64s], draws: int
) -> float:
    """Posterior mean of the pairs of records of one wave that are linked: duplicates found."""
    one, two, together = pairs
    sizes = [len(table) for table in data.tables.values()]
    wave = np.repeat(np.arange(len(sizes)), sizes)
    return float(together[wave[one] == wave[two]].sum() / draws)


def false_between_waves(data: Simulation, posterior: Posterior) -> dict[str, float]:
    """Posterior mean of the false links between waves, in all and in clusters that repeat a wave.

    Nobody is in a wave twice, so that all true links are between waves.
    """
    sets, truth = posterior.sets.sets, data.truth
    wave = np.repeat(np.arange(len(data.tables)), [len(table) for table in data.tables.values()])

    def pairs_alike(label: Int64s) -> Floats:
        """Pairs of records of each set with the same label."""
        labels = int(label.max()) + 1
        group, size = np.unique(sets.owner * labels + label[sets.member], return_counts=True)
        pairs = np.bincount(group // labels, size_pairs(size), minlength=len(sets))
        return pairs.astype(np.float64)

    within = pairs_alike(wave)
    false = size_pairs(sets.size) - within - pairs_alike(truth)
    weight = posterior.sets.draws / (posterior.chains * posterior.draws)
    return {"all": float(weight @ false), "repeating": float((weight * (within > 0)) @ false)}


def look_alikes(model: Model, truth: Int64s) -> dict[str, int]:
    """Pairs of records of different people that agree in every field, or in all but one."""

    def agreeing(columns: list[int]) -> int:
        """Pairs of different people that agree in these fields."""
        codes = [model.coded[column].codes for column in columns]
        return pairs_within(*codes) - pairs_within(*codes, truth)

    every = list(range(len(model.coded)))
    twins = agreeing(every)
    near = sum(agreeing([other for other in every if other != one]) - twins for one in every)
    return {"twins": twins, "near_twins": near}


def exact_matching(model: Model, truth: Int64s) -> Links:
    """What linking all records that agree in every field would find."""
    equal = number_rows([part.codes for part in model.coded], len(truth))
    return links(equal, truth)


def found_by_difference(
    model: Model, truth: Int64s, pairs: tuple[Int64s, Int64s, Int64s], draws: int
) -> list[dict[str, Any]]:
    """True pairs by the fields in which their records differ: how many, and the share found."""
    one, two = pairs_of(truth)
    n = len(truth)
    linked = pairs[0] * n + pairs[1]  # in ascending order
    wanted = one * n + two
    known, probability = np.append(linked, -1), np.append(pairs[2] / draws, 0.0)
    at = np.searchsorted(linked, wanted)
    match: Floats = np.where(known[at] == wanted, probability[at], 0.0)
    differs = np.stack([part.codes[one] != part.codes[two] for part in model.coded], axis=1)
    kinds, number = np.unique(differs, axis=0, return_inverse=True)
    counts = np.bincount(number)
    sums = np.bincount(number, match)
    names = [[p.name for p, yes in zip(model.coded, kind, strict=True) if yes] for kind in kinds]
    rows = [
        {"fields": fields, "pairs": int(count), "found": float(total / count)}
        for fields, count, total in zip(names, counts, sums, strict=True)
    ]
    return sorted(rows, key=lambda row: -int(row["pairs"]))


def pairs_of(label: Int64s) -> tuple[Int64s, Int64s]:
    """All pairs of records with the same label, the first before the second."""
    order = np.argsort(label, kind="stable")
    sizes = np.unique(label[order], return_counts=True)[1]
    start = np.concatenate(([0], np.cumsum(sizes)[:-1]))
    ones, twos = [], []
    for size in np.unique(sizes[sizes > 1]):
        groups = order[start[sizes == size][:, None] + np.arange(size)]
        i, j = np.triu_indices(size, 1)
        ones.append(groups[:, i].ravel())
        twos.append(groups[:, j].ravel())
    if not ones:
        raise ConfigError("the simulated people appear only once each; take a larger share")
    return np.concatenate(ones), np.concatenate(twos)
