"""What a run will do, told before it starts: records, levels, blocks, pairs, memory, time."""

import shlex
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from smered.guess import MARKERS
from smered.layout import COIN_SIDES
from smered.model import PROPOSALS_PER_RECORD, Model, as_fields, usual_proposals
from smered.sampler import TUNED_PROPOSALS_PER_RECORD, Settings

__all__ = ["FieldPlan", "Plan", "make_plan", "print_plan"]

LARGEST_SHOWN = 3  # blocks named in a plan
# Measured on one core of 2026; a rough guide only.
SECONDS_PER_PROPOSAL = 2e-7
SECONDS_PER_RECORD = 2e-7  # for what a sweep does besides proposals
BYTES_AT_REST = 250e6  # the program itself
BYTES_PER_RECORD, BYTES_PER_VALUE, BYTES_PER_CHAIN = 200, 20, 60  # while sampling


@dataclass(frozen=True)
class FieldPlan:
    """One field: how it is compared, its levels, and how many records lack it."""

    name: str
    kind: str
    levels: int
    missing: int
    markers: tuple[str, ...]  # values that look as if they meant missing


@dataclass(frozen=True)
class Plan:
    """Everything that is known before sampling."""

    files: dict[str, int]  # records of each file
    single: tuple[str, ...]  # files without duplicates
    fields: tuple[FieldPlan, ...]
    block_columns: tuple[str, ...]
    blocks: int
    largest_blocks: tuple[tuple[str, int], ...]
    candidate_pairs: int | None  # None if they were not looked for
    settings: Settings
    proposals: int  # per sweep of the burn-in; later there are fewer, where they matter
    bytes: int
    seconds: float

    @property
    def records(self) -> int:
        """Records in all."""
        return sum(self.files.values())


def make_plan(
    model: Model,
    settings: Settings,
    *,
    look_for_pairs: bool = True,
    name_block: Callable[[int], str] | None = None,
) -> Plan:
    """Look at a model without sampling it.

    Looking for candidate pairs takes longest; without them the time is that of a burn-in. A model
    that holds no records needs to be told what a block is called.
    """
    records = model.records
    name_block = name_block or partial(block_name, model)
    n, p = model.size, len(model.coded)
    layout = model.layout(settings.proposals) if look_for_pairs else None
    proposals = settings.proposals or int(usual_proposals(n, PROPOSALS_PER_RECORD))
    sizes = model.block_sizes
    at_once = min(settings.chains, settings.threads)
    tuned = float(settings.proposals or proposals)
    if settings.burn_in and layout and len(layout.candidates) and settings.proposals is None:
        per_record = TUNED_PROPOSALS_PER_RECORD[bool(model.near.any())]
        informed = usual_proposals(n, per_record, tuned=True)
        tuned = informed + proposals * layout.uniform_share / COIN_SIDES
    made = settings.burn_in * proposals + settings.draws * settings.thin * tuned
    swept = settings.sweeps * n * SECONDS_PER_RECORD
    work = settings.chains * (made * SECONDS_PER_PROPOSAL + swept)
    return Plan(
        files=dict(zip(records.files, model.file_sizes.tolist(), strict=True)),
        single=tuple(f for f, one in zip(records.files, model.single, strict=True) if one),
        fields=tuple(
            FieldPlan(
                part.name,
                f"{type(field).__name__.lower()}{', exact' if part.exact else ''}",
                part.values,
                n - int(part.shown.sum()),
                tuple(like_missing(part.levels)),
            )
            for field, part in zip(as_fields(model.fields), model.coded, strict=True)
        ),
        block_columns=records.block_columns,
        blocks=len(sizes),
        largest_blocks=tuple(
            (name_block(int(block)), int(sizes[block]))
            for block in np.argsort(-sizes, kind="stable")[:LARGEST_SHOWN]
        ),
        candidate_pairs=len(layout.candidates) if layout else None,
        settings=settings,
        proposals=proposals,
        bytes=int(
            BYTES_AT_REST + n * (BYTES_PER_RECORD + BYTES_PER_VALUE * p + BYTES_PER_CHAIN * at_once)
        ),
        seconds=work / min(settings.threads, settings.chains * len(sizes)),
    )


def like_missing(levels: pa.Array) -> list[str]:
    """Levels that look as if they meant a missing value."""
    plain = pc.utf8_lower(pc.utf8_trim_whitespace(levels))
    marked = pc.is_in(plain, value_set=pa.array(sorted(MARKERS)))
    found: list[str] = levels.filter(marked).to_pylist()
    return found


def block_name(model: Model, block: int) -> str:
    """The values that the records of a block share."""
    records = model.records
    first = int(np.argmax(records.block == block))
    columns = [records.columns[name] for name in records.block_columns]
    return ", ".join(f"{c.name} {c.levels[int(c.codes[first])].as_py()}" for c in columns) or "all"


def print_plan(plan: Plan, console: Console) -> None:
    """Show a plan in words and one table."""
    files = ", ".join(f"{escape(name)} {count:,}" for name, count in plan.files.items())
    console.print(f"[bold]{plan.records:,} records[/bold] in {len(plan.files)} file(s): {files}")
    if plan.single:
        everywhere = len(plan.single) == len(plan.files)
        where = "any file" if everywhere else escape(", ".join(plan.single))
        console.print(f"No duplicates within {where}")
    table = Table("field", "type", "levels", "missing", "")
    for column in table.columns[2:]:
        column.justify = "right"
    for field in plan.fields:
        share = field.missing / plan.records
        table.add_row(
            escape(field.name),
            field.kind,
            f"{field.levels:,}",
            f"{field.missing:,}",
            f"{share:.1%}",
        )
    console.print(table)
    markers = {value: field.name for field in plan.fields for value in field.markers}
    if markers:
        said = ", ".join(f"{value!r} in {name}" for value, name in markers.items())
        flags = " ".join(f"--missing {shlex.quote(value)}" for value in markers)
        console.print(f"Note: {said}: if that means missing, say {flags}", markup=False)
    if plan.block_columns:
        largest = "; ".join(f"{escape(name)}: {size:,}" for name, size in plan.largest_blocks)
        by = escape(", ".join(plan.block_columns))
        console.print(f"{plan.blocks:,} blocks by {by}, the largest: {largest}")
    else:
        console.print("No blocks: any two records may be linked")
    s = plan.settings
    pairs = "" if plan.candidate_pairs is None else f"{plan.candidate_pairs:,} candidate pairs; "
    console.print(
        f"{pairs}{s.chains} chains of {s.burn_in:,} + "
        f"{s.draws * s.thin:,} sweeps of up to {plan.proposals:,} proposals; {s.draws:,} draws "
        "kept of each"
    )
    console.print(
        f"Expected: about {plan.bytes / 1e9:.1f} GB of memory and {duration(plan.seconds)} on "
        f"{s.threads} thread(s)"
    )


def duration(seconds: float) -> str:
    """A rough time in words."""
    if seconds < 60:
        return f"{max(seconds, 1):.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
