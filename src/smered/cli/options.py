"""The flags, each with one name and one meaning in every command."""

from pathlib import Path
from typing import Annotated

import typer

DATA, SAMPLING, OUTPUT = "Data", "Sampling", "Output"

Files = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[FILE]...",
        help="CSV, Parquet or Arrow files, duckdb:PATH?TABLE, sqlite:PATH?TABLE or "
        "postgresql://USER@HOST/DB?TABLE; NAME=FILE gives a file another name.",
    ),
]
Run = Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.")]

Id = Annotated[
    str | None,
    typer.Option("--id", metavar="COL", help="Column with ids, unique within a file.",
                 rich_help_panel=DATA),
]  # fmt: skip
FileColumn = Annotated[
    str | None,
    typer.Option("--file-column", metavar="COL", rich_help_panel=DATA,
                 help="Column that says which file a row of a single table came from."),
]  # fmt: skip
Fields = Annotated[
    list[str] | None,
    typer.Option("--field", metavar="COL[:TYPE]", rich_help_panel=DATA,
                 help="Column to compare, TYPE categorical (default), text, number, date or exact; "
                 "repeatable. "
                 "Default: every column that is not id, file, truth or ignored."),
]  # fmt: skip
Ignore = Annotated[
    list[str] | None,
    typer.Option("--ignore", metavar="COL", rich_help_panel=DATA,
                 help="Column not to compare; repeatable."),
]  # fmt: skip
Blocks = Annotated[
    list[str] | None,
    typer.Option("--block", metavar="COL", rich_help_panel=DATA,
                 help="Records that differ in this column are never linked; repeatable."),
]  # fmt: skip
NoDuplicates = Annotated[
    bool | None,
    typer.Option("--no-duplicates", rich_help_panel=DATA, show_default=False,
                 help="No file holds the same entity twice."),
]  # fmt: skip
NoDuplicatesIn = Annotated[
    list[str] | None,
    typer.Option("--no-duplicates-in", metavar="NAME", rich_help_panel=DATA,
                 help="This file holds no entity twice; repeatable."),
]  # fmt: skip
Missing = Annotated[
    list[str] | None,
    typer.Option("--missing", metavar="MARKER", rich_help_panel=DATA,
                 help="Value that means missing, besides an empty one; repeatable."),
]  # fmt: skip
Truth = Annotated[
    str | None,
    typer.Option("--truth", metavar="COL", rich_help_panel=DATA,
                 help="Column with the true entity: never compared, kept to evaluate."),
]  # fmt: skip
TruthOf = Annotated[
    str | None,
    typer.Option("--truth", metavar="COL|FILE", show_default=False,
                 help="Column of the input files with the true entity, or a table with the columns "
                 "file, id and the entity; default: the column named when linking."),
]  # fmt: skip
Encoding = Annotated[
    str | None,
    typer.Option("--encoding", metavar="NAME", rich_help_panel=DATA,
                 help="Encoding of CSV files; found out if not given."),
]  # fmt: skip
Delimiter = Annotated[
    str | None,
    typer.Option("--delimiter", metavar="CHAR", rich_help_panel=DATA,
                 help="Delimiter of CSV files; found out if not given."),
]  # fmt: skip
Config = Annotated[
    Path | None,
    typer.Option("--config", metavar="TOML", rich_help_panel=DATA,
                 help="A link.toml; flags go before what it says."),
]  # fmt: skip

Draws = Annotated[
    int | None,
    typer.Option("--draws", rich_help_panel=SAMPLING, help="Draws kept per chain \\[500]."),
]
BurnIn = Annotated[
    int | None,
    typer.Option(
        "--burn-in", rich_help_panel=SAMPLING, help="Sweeps before the first draw \\[200]."
    ),
]
Thin = Annotated[
    int | None,
    typer.Option("--thin", rich_help_panel=SAMPLING, help="Sweeps per draw \\[1]."),
]
Chains = Annotated[
    int | None,
    typer.Option("--chains", rich_help_panel=SAMPLING, help="Independent chains \\[4]."),
]
Seed = Annotated[
    int | None,
    typer.Option("--seed", rich_help_panel=SAMPLING, help="The same seed, the same bytes \\[0]."),
]
Threads = Annotated[
    int | None,
    typer.Option("--threads", min=1, rich_help_panel=SAMPLING, show_default=False,
                 help="Threads; the result does not depend on it \\[all cores]."),
]  # fmt: skip

Ray = Annotated[
    str | None,
    typer.Option("--ray", metavar="[ADDRESS]", rich_help_panel=SAMPLING, show_default=False,
                 help="Run on a Ray cluster, by its address; without one, on this machine's own."),
]  # fmt: skip

Out = Annotated[
    Path,
    typer.Option("--out", metavar="DIR", rich_help_panel=OUTPUT, help="The run folder to make."),
]
Formats = Annotated[
    str | None,
    typer.Option("--format", rich_help_panel=OUTPUT, help="Formats of tables \\[csv,parquet]."),
]
MinProbability = Annotated[
    float | None,
    typer.Option("--min-probability", rich_help_panel=OUTPUT,
                 help="Pairs at least this probable are written \\[0.1]."),
]  # fmt: skip
Loss = Annotated[
    str | None,
    typer.Option("--loss", rich_help_panel=OUTPUT,
                 help="The estimate: mpmms (the paper's, the default), binder, vi or f1."),
]  # fmt: skip
RawCsv = Annotated[
    bool | None,
    typer.Option("--raw-csv", rich_help_panel=OUTPUT, show_default=False,
                 help="Leave values in CSV files that a spreadsheet would run as formulas."),
]  # fmt: skip
Level = Annotated[float, typer.Option("--level", metavar="SHARE", help="Probability of intervals.")]
LinkageDraws = Annotated[
    int, typer.Option("--draws", help="Draws of the linkage to average over, about.")
]
Figures = Annotated[
    Path | None,
    typer.Option("--figures", metavar="DIR", help="Also draw the figures, as PNG and SVG."),
]
Json = Annotated[
    bool, typer.Option("--json", rich_help_panel=OUTPUT, help="Print JSON on standard output.")
]
Quiet = Annotated[
    bool, typer.Option("--quiet", rich_help_panel=OUTPUT, help="Print nothing but errors.")
]
Force = Annotated[
    bool,
    typer.Option("--force", rich_help_panel=OUTPUT, help="Replace what is there already."),
]
DryRun = Annotated[
    bool,
    typer.Option("--dry-run", rich_help_panel=OUTPUT, help="Show the plan and stop."),
]
