"""The size of a population as text."""

import math

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from smered.population.estimate import Population, Size

__all__ = ["print_population"]

MODELS = 3  # of each method, the weightiest
METHODS = {
    "chapman": "Chapman, two files",
    "loglinear": "log-linear models, averaged by BIC",
    "chao": "Chao's lower bound",
    "graphs": "decomposable graphs, averaged",
}


def number(value: float) -> str:
    """A number of entities."""
    return f"{value:,.0f}" if math.isfinite(value) else "no bound"


def interval(size: Size) -> str:
    """Lower and upper end."""
    return f"{number(size.lower)} to {number(size.upper)}"


def print_population(found: Population, console: Console) -> None:
    """Show a population: a row for each method and stratum."""
    console.print(
        f"[bold]Population[/bold] from the overlap of {escape(', '.join(found.files))}, "
        f"averaged over {found.draws} draws of the linkage"
    )
    strata = [escape(found.by)] if found.by else []
    table = Table("method", *strata, "seen", "in all", f"{found.level:.0%} interval",
                  "due to linkage", "if the linkage were certain")  # fmt: skip
    for column in table.columns[2 if found.by else 1 :]:
        column.justify = "right"
    certain = {(s.method, s.stratum): s for s in found.sizes if s.certain}
    for size in found.sizes:
        if size.certain:
            continue
        alone = certain.get((size.method, size.stratum))
        share = f"{size.linkage_share:.0%}" if math.isfinite(size.linkage_share) else ""
        stratum = [escape("all" if size.stratum is None else str(size.stratum))] if found.by else []
        table.add_row(
            METHODS[size.method], *stratum, number(size.observed), number(size.estimate),
            interval(size), share,
            "" if alone is None else f"{number(alone.estimate)} ({interval(alone)})",
        )  # fmt: skip
    console.print(table)
    for size in found.sizes:
        if size.models and not size.certain and size.stratum is None:
            best = "; ".join(f"{m.name} {m.weight:.0%} ({number(m.population)})"
                             for m in size.models[:MODELS])  # fmt: skip
            console.print(f"{METHODS[size.method]}: {best}", markup=False)
