"""The demonstration: the paper's application on a simulated survey, with the truth beside it."""

import time
import warnings

from rich.console import Console
from rich.table import Table

from smered.errors import ConvergenceWarning
from smered.evaluate import posterior_links
from smered.fields import Categorical, Field, Joint
from smered.model import Model
from smered.posterior import Posterior
from smered.priors import UniformLabels
from smered.progress import SamplingProgress
from smered.records import Records
from smered.run import sample
from smered.sampler import Settings
from smered.simulate import PAPER_OVERLAP, Simulation, survey

__all__ = ["paper_model", "run_demo", "survey_model"]

BLOCKS = ("sex", "year")
PLACE = ("state", "office")  # which change together when people move


def paper_model(simulation: Simulation) -> Model:
    """The paper's model of the survey: blocks sex and birth year, no duplicates within a wave.

    Its priors, too: rates Beta(5, 10), but for the columns that make blocks, and labels alike.
    """
    records = Records.from_frames(
        simulation.tables, columns=simulation.fields, id="id", blocks=BLOCKS
    )
    fields = [
        Categorical(name, a=5, b=None if name in BLOCKS else 10, mu=1) for name in simulation.fields
    ]
    return Model(records, fields, duplicates=False, prior=UniformLabels())


def survey_model(simulation: Simulation) -> Model:
    """The survey as `smered init` sets it up: a place that may change, and priors that learn."""
    names = [name for name in simulation.fields if name not in BLOCKS]
    records = Records.from_frames(simulation.tables, columns=names, id="id", blocks=BLOCKS)
    fields: list[Field] = [
        *(Categorical(name) for name in names if name not in PLACE),
        Joint(*PLACE, changes=True),
    ]
    return Model(records, fields, duplicates=False, time_order=tuple(simulation.tables))


def run_demo(
    *, draws: int, burn_in: int, chains: int, seed: int, threads: int, share: float, quiet: bool
) -> None:
    """Simulate, link, and print the result beside the truth."""
    console = Console()
    started = time.perf_counter()
    simulation = survey(seed, share=share, right=BLOCKS)  # blocks cannot mend errors of theirs
    model = survey_model(simulation)
    settings = Settings(draws, burn_in, 1, chains, seed, threads)
    console.print(
        f"Linking {len(model.records):,} records of three survey waves "
        f"({len(model.block_sizes)} blocks by {' and '.join(BLOCKS)}; no duplicates within a wave)"
    )
    with (
        SamplingProgress(settings, len(model.records), console, quiet) as observe,
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore", ConvergenceWarning)  # the verdict is printed below
        posterior = sample(model, observe=observe, **vars(settings))
    print_result(console, posterior, simulation, share)
    console.print(posterior.diagnostics().sentence, markup=False)  # it has brackets of its own
    console.print(f"Time: {time.perf_counter() - started:.1f} s, compilation included")


def print_result(
    console: Console, posterior: Posterior, simulation: Simulation, share: float
) -> None:
    """Print N, the overlap of the waves and the links, each against the truth."""
    counts = {waves: round(count * share) for waves, count in PAPER_OVERLAP.items()}
    truth = sum(counts.values())
    console.print(f"\nPeople: {posterior.entities()}, in truth {truth:,}")
    overlap = posterior.overlap()
    table = Table("waves", "in truth", "posterior mean", "95% interval", "relative error")
    for column in table.columns[1:]:
        column.justify = "right"
    for pattern, count in counts.items():
        found = overlap[pattern]
        table.add_row(
            ", ".join(pattern),
            f"{count:,}",
            f"{found.mean:,.1f}",
            f"{found.lower:,.0f} to {found.upper:,.0f}",
            f"{found.mean / count - 1:+.1%}",
        )
    console.print(table)
    for step, rate in posterior.changes(" | ".join(PLACE)).items():
        console.print(f"Moved, {step}: {rate.mean:.1%} ({rate.lower:.1%} to {rate.upper:.1%})")
    found_links = posterior_links(posterior, simulation.truth)
    console.print(
        f"Links: {found_links.true:,.1f} true, {found_links.false:,.1f} false, "
        f"{found_links.missing:,.1f} missing; FNR {found_links.fnr:.3f}, FPR {found_links.fpr:.3f}"
    )
