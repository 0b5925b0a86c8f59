"""An evaluation in words and tables."""

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from smered.evaluate.evaluation import Evaluation
from smered.evaluate.metrics import Links

__all__ = ["print_evaluation"]

RATES = ("fnr", "fpr", "precision", "recall", "f1")


def print_evaluation(found: Evaluation, console: Console) -> None:
    """Show everything that an evaluation holds."""
    if found.known < found.records:
        console.print(f"The truth of {found.known:,} of {found.records:,} records is known")
    console.print(links_table(found))
    console.print("FNR and FPR are shares of the true links, as in the paper: FPR may exceed 1")
    b_cubed, exactly = found.b_cubed, found.clusters
    console.print(
        f"Of the estimate: B-cubed precision {b_cubed.precision:.4f}, recall "
        f"{b_cubed.recall:.4f}, F1 {b_cubed.f1:.4f}; entities recovered exactly: "
        f"{exactly.precision:.1%} of the estimated, {exactly.recall:.1%} of the true; "
        f"adjusted Rand {found.adjusted_rand:.4f}; variation of information "
        f"{found.variation_of_information:.4f} nats"
    )
    if found.entities is not None:
        console.print(f"Entities: {found.entities}, in truth {found.true_entities:,}")
    if len(found.overlap) > 1:
        console.print("\nEntities by the files that hold them:")
        table = Table("files", "in truth", "mean", "95% interval", "relative error")
        right(table)
        for row in found.overlap:
            error = row.relative_error
            table.add_row(
                escape(" + ".join(row.files)), f"{row.truth:,}", f"{row.posterior.mean:,.1f}",
                f"{row.posterior.lower:,.0f} to {row.posterior.upper:,.0f}",
                "" if error is None else f"{error:+.1%}",
            )  # fmt: skip
        console.print(table)
        console.print("\nRecords by the files of their entity:")
        console.print(confusion_table(found))
    console.print("\nAre the probabilities right?")
    console.print(reliability_table(found))
    console.print(
        f"Calibration error {found.reliability.error:.4f}; {found.never_linked:,} true pairs are "
        "linked in no draw"
    )


def right(table: Table) -> None:
    """Set the numbers of a table to the right."""
    for column in table.columns[1:]:
        column.justify = "right"


def links_table(found: Evaluation) -> Table:
    """Links and their rates, of the posterior and of the estimate."""
    table = Table("links", "true", "false", "missing", *(name.upper() for name in RATES[:2]),
                  *RATES[2:])  # fmt: skip
    right(table)

    def cells(name: str, links: Links, digits: int) -> None:
        counts = [f"{value:,.{digits}f}" for value in (links.true, links.false, links.missing)]
        table.add_row(name, *counts, *(f"{getattr(links, rate):.4f}" for rate in RATES))

    cells("posterior mean", found.posterior, 1)
    intervals = [
        f"{found.rates[rate].lower:.4f} to {found.rates[rate].upper:.4f}" for rate in RATES
    ]
    table.add_row("95% interval", "", "", "", *intervals)
    cells("estimate", found.estimate, 0)
    return table


def confusion_table(found: Evaluation) -> Table:
    """Records by estimated pattern (rows) and true pattern (columns)."""
    names = [escape(" + ".join(pattern)) for pattern in found.confusion.patterns]
    table = Table("estimated \\ true", *names, "sum")
    right(table)
    rows = zip(names, found.confusion.records, found.confusion.row_sums, strict=True)
    for name, counts, total in rows:
        table.add_row(name, *(f"{count:,}" for count in counts), f"{total:,}")
    return table


def reliability_table(found: Evaluation) -> Table:
    """Pairs by match probability."""
    table = Table("match probability", "pairs", "mean probability", "match in truth")
    right(table)
    r = found.reliability
    rows = zip(r.edges[:-1], r.edges[1:], r.pairs, r.predicted, r.observed, strict=True)
    for low, high, pairs, predicted, observed in rows:
        shares = [f"{predicted:.3f}", f"{observed:.3f}"] if pairs else ["", ""]
        table.add_row(f"{low:.1f} to {high:.1f}", f"{pairs:,}", *shares)
    return table
