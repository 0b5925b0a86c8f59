"""The model: everything that stays fixed during a run."""

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np

from smered.errors import ConfigError
from smered.fields import Categorical, CodedField, Field
from smered.layout import Bools, Floats, Int32s, Int64s, Layout
from smered.pairs import Arranged, InformedPairs, PairChoice, PairTables, RotatingBlocks
from smered.priors import ClusterSizes, Prior, PriorChoice
from smered.records import Records
from smered.suggest import suggest
from smered.tuning import Totals, count_totals, even_grades, with_grades

__all__ = ["Distortion", "Duplicates", "Model"]

Duplicates = bool | Mapping[str, bool]
Distortion = Literal["field", "file"]

# Redrawing y, z and the parameters costs about as much as this many proposals per record.
PROPOSALS_PER_RECORD = 4
LEAST_PROPOSALS = 8000  # in a sweep of few records
TUNED_SHARE = 0.25  # of them once proposals go where they are worth most
MOST_CLASSES = 256
MOST_RECORDS = 2**31 - 1
LARGEST_STREAM = 2**31 - 1  # half the numbers that one stream of the generator holds


@dataclass(frozen=True)
class Model:
    """Records, the meaning of their fields, and the priors.

    `classes` above 1 lets fields depend on each other: true values are then drawn from a mixture of
    at most so many latent classes, except in fields whose distorted values fall near the true one.
    `duplicates` says whether a file may hold two records of one entity: for all files at once, or
    for each file by name (files not named may). `distortion` is "field" for one distortion rate
    per field, "file" for one per file and field. `time_order` names the files from the earliest to
    the latest, where fields change over time. `pairs` decides only the speed.
    """

    records: Records
    fields: Sequence[str | Field]
    duplicates: Duplicates = True
    distortion: Distortion = "field"
    prior: PriorChoice = field(default_factory=ClusterSizes)
    pairs: PairChoice = field(default_factory=InformedPairs)
    classes: int = 1
    time_order: Sequence[str] = ()

    def __post_init__(self) -> None:
        if not 1 <= self.classes <= MOST_CLASSES:
            raise ConfigError(f"classes = {self.classes} must be between 1 and {MOST_CLASSES}")
        if self.classes > 1 and self.rotates:
            raise ConfigError("rotating blocks know no latent classes; use informed pairs")
        if not self.fields:
            raise ConfigError("no fields given; name at least one column to compare")
        if self.distortion not in ("field", "file"):
            raise ConfigError(f"distortion = {self.distortion!r} must be 'field' or 'file'")
        if isinstance(self.duplicates, Mapping):
            for file in self.duplicates:
                if file not in self.records.files:
                    raise ConfigError(
                        f"duplicates: no file {file!r}; {suggest(file, self.records.files)}"
                    )
        self.check_times()
        names = [part.name for part in as_fields(self.fields)]
        repeated = sorted({name for name in names if names.count(name) > 1})
        if repeated:
            raise ConfigError(f"field {repeated[0]!r} is given twice")
        self.check_size()

    def check_times(self) -> None:
        """Refuse an order of time that is not one of all files, or that is needed and missing."""
        files = self.records.files
        changing = [part.name for part in as_fields(self.fields) if part.changes]
        if self.time_order and sorted(self.time_order) != sorted(files):
            raise ConfigError(
                f"time_order = {list(self.time_order)} must name every file once: {list(files)}"
            )
        if changing and not self.time_order:
            raise ConfigError(
                f"field {changing[0]!r} changes over time: say the order of the files, from the "
                f"earliest to the latest, such as time_order = {list(files)}"
            )
        if changing and self.classes > 1:
            raise ConfigError("latent classes know no fields that change over time")

    def check_size(self) -> None:
        """Refuse more records than can be numbered."""
        fields = len(self.fields)
        if self.largest_cluster * fields > LARGEST_STREAM:
            raise ConfigError(
                f"the largest block holds {self.largest_cluster} records of {fields} "
                "fields, more than one block can; use smaller blocks"
            )
        if self.size > MOST_RECORDS:
            raise ConfigError(f"there are {self.size} records, more than {MOST_RECORDS}")

    @cached_property
    def coded(self) -> tuple[CodedField, ...]:
        """The fields, coded."""
        return tuple(part.code(self.records) for part in as_fields(self.fields))

    @cached_property
    def order(self) -> Int64s:
        """Records in kernel order: by block, then by file, then as they came."""
        return np.lexsort((self.records.file, self.records.block)).astype(np.int64)

    @cached_property
    def block_sizes(self) -> Int64s:
        """Records in each block (B,)."""
        return np.bincount(self.records.block).astype(np.int64)

    @cached_property
    def size(self) -> int:
        """Number of records."""
        return int(self.block_sizes.sum())

    @cached_property
    def single(self) -> Bools:
        """Which files hold no duplicates (k,)."""
        if isinstance(self.duplicates, Mapping):
            allowed = [self.duplicates.get(file, True) for file in self.records.files]
        else:
            allowed = [self.duplicates] * len(self.records.files)
        return ~np.array(allowed, np.bool_)

    @cached_property
    def file_sizes(self) -> Int64s:
        """Records in each file (k,)."""
        return np.bincount(self.records.file, minlength=len(self.records.files)).astype(np.int64)

    @cached_property
    def partition_prior(self) -> Prior:
        """The prior on the linkage of these files."""
        blocks = len(self.block_sizes)
        return self.prior.for_files(self.records.files, self.file_sizes, self.single, blocks)

    @property
    def rotates(self) -> bool:
        """Whether blocks rotate, so that clusters may be anywhere."""
        return isinstance(self.pairs, RotatingBlocks)

    def log_kind(self, hyperparameters: Floats, largest: int | None = None) -> Floats:
        """Log W of the prior, for clusters up to a size (default: that of the largest block)."""
        most = self.largest_cluster if largest is None else largest
        return self.partition_prior.log_kind(most, hyperparameters)

    @cached_property
    def given(self) -> Bools:
        """Which fields are known once the block is, so that agreeing in them tells nothing (p,).

        That is so where agreeing on the block is evidence by itself.
        """
        by_block = self.partition_prior.by_block
        blocks = set(self.records.block_columns)
        columns = [set(part.columns) for part in as_fields(self.fields)]
        found = [part.exact and by_block for part in self.coded]
        return np.array(found) & np.array([own <= blocks for own in columns])

    @cached_property
    def exact(self) -> Bools:
        """Which fields are never distorted (p,)."""
        return np.array([part.exact for part in self.coded])

    @cached_property
    def field_start(self) -> Int64s:
        """First level of each field in the flat level tables (p + 1,)."""
        return np.concatenate(([0], np.cumsum([len(part.mu) for part in self.coded])))

    @cached_property
    def mu(self) -> Floats:
        """Dirichlet hyperparameters of all fields (T,)."""
        return np.concatenate([part.mu for part in self.coded])

    @property
    def rate_rows(self) -> int:
        """Rows of distortion rates: one, or one per file."""
        return len(self.records.files) if self.distortion == "file" else 1

    @cached_property
    def observed(self) -> Int64s:
        """Values present, by row of distortion rates and field (R, p)."""
        files = self.records.file if self.distortion == "file" else np.zeros(len(self.records), int)
        present = [
            np.bincount(files[part.codes >= 0], minlength=self.rate_rows) for part in self.coded
        ]
        return np.stack(present, axis=1).astype(np.int64)

    @cached_property
    def shown(self) -> Int64s:
        """Records that show each level (T,)."""
        return np.concatenate([part.shown for part in self.coded])

    @cached_property
    def largest_cluster(self) -> int:
        """More records than any legal cluster can hold."""
        return int(self.block_sizes.max(initial=0))

    @cached_property
    def changing(self) -> Bools:
        """In which fields true values change over time (p,)."""
        several = len(self.records.files) > 1
        return np.array([part.changes and several for part in as_fields(self.fields)])

    @cached_property
    def time(self) -> Int64s:
        """When each file stands in the order of time (k,)."""
        files = self.records.files
        return np.array([[*self.time_order, *files].index(file) for file in files], np.int64)

    @property
    def change_shape(self) -> tuple[int, int]:
        """Steps from one file to the next in time, and fields."""
        return len(self.records.files) - 1, len(self.coded)

    @cached_property
    def near(self) -> Bools:
        """In which fields distorted values fall near the true one (p,)."""
        return np.array([part.similar is not None for part in self.coded])

    @cached_property
    def learned(self) -> Bools:
        """Which levels have a probability that is learned (T,)."""
        return np.repeat(~self.near & (self.classes == 1), np.diff(self.field_start))

    @cached_property
    def told(self) -> Bools:
        """Which levels are of fields that the block tells already (T,)."""
        return np.repeat(self.given, np.diff(self.field_start))

    @property
    def class_shape(self) -> tuple[int, int]:
        """Levels and latent classes, (1, 1) if there are none."""
        return (len(self.mu), self.classes) if self.classes > 1 else (1, 1)

    @cached_property
    def mixed(self) -> Bools:
        """Which levels have a probability in every latent class (T,)."""
        return np.repeat(~self.near & (self.classes > 1), np.diff(self.field_start))

    @cached_property
    def close(self) -> Bools:
        """In which of these fields any values are similar, so that closeness is learned (p,)."""
        return np.array(
            [part.similar is not None and len(part.neighbours.level) > 0 for part in self.coded]
        )

    @cached_property
    def near_tables(self) -> dict[str, Any]:
        """What lies near the levels of all fields, as the layout holds it; see `smered.near`."""
        counts = np.zeros(len(self.mu), np.int64)
        itself, twice = np.zeros(len(self.mu)), np.zeros(len(self.mu))
        near_level, near_kernel = [np.empty(0, np.int32)], [np.empty(0)]
        near_copies = [np.empty(0, np.bool_)]
        for column in np.flatnonzero(self.near):
            first, last = self.field_start[column : column + 2]
            found = self.coded[column].near
            counts[first:last] = np.diff(found.start)
            near_level.append(found.level + np.int32(first))
            near_kernel.append(found.kernel)
            near_copies.append(found.copies)
            itself[first:last] = found.itself
            twice[first:last] = found.twice
        return {
            "near_start": np.concatenate(([0], np.cumsum(counts))),
            "near_level": np.concatenate(near_level),
            "near_kernel": np.concatenate(near_kernel),
            "near_copies": np.concatenate(near_copies),
            "sets": np.array([part.partial is not None for part in self.coded]),
            "near_itself": itself,
            "near_twice": twice,
        }

    def loose_values(self, values: Int32s) -> tuple[Int32s, ...]:
        """The values in kernel order (n, p), with keys in place of values that survive typos."""
        views = []
        for number in range(max((len(part.keys) for part in self.coded), default=0)):
            loose = values.copy()
            for column, part in enumerate(self.coded):
                if part.keys:
                    key = part.keys[min(number, len(part.keys) - 1)]
                    codes = part.codes[self.order]
                    loose[:, column] = np.where(codes >= 0, key[codes], -1)
            views.append(loose)
        return tuple(views)

    def layout(self, proposals: int | None = None) -> Layout:
        """Lay the records out for the kernels, with `proposals` per sweep (default: usual ones)."""
        arranged = self.arrange()
        tables = self.pairs.tables(arranged, self.pairs.patterns(arranged))
        layout = self.lay_out(arranged, tables)
        return self.share_out(layout, tables, proposals, count_totals(layout, layout.grade))

    def arrange(self, first_block: int = 0) -> Arranged:
        """The records in kernel order, of blocks that are numbered from `first_block` on."""
        values = self.values()
        file, block = self.records.file[self.order], self.records.block[self.order]
        arranged = self.arrange_values(values, file, first_block + block)
        return arranged._replace(loose=self.loose_values(values))

    def values(self) -> Int32s:
        """The values of the records in kernel order, as positions in the level tables (n, p)."""
        values = np.empty((len(self.records), len(self.coded)), np.int32)
        for column, part in enumerate(self.coded):
            codes = part.codes[self.order]
            values[:, column] = np.where(codes >= 0, codes + self.field_start[column], -1)
        return values

    def arrange_values(self, values: Int32s, file: Int32s, block: Int64s) -> Arranged:
        """Any records of these files that stand in kernel order."""
        n = len(values)
        new_block = np.append(True, block[1:] != block[:-1])[:n]
        new_cell = new_block | np.append(True, file[1:] != file[:-1])[:n]
        cell_file = file[new_cell]
        return Arranged(
            values,
            self.exact,
            np.append(np.flatnonzero(new_block), n),
            block[new_block],
            (np.cumsum(new_cell) - 1).astype(np.int32),
            np.append(np.flatnonzero(new_cell), n).astype(np.int64),
            cell_file,
            self.single[cell_file],
            self.near,
        )

    def lay_out(self, arranged: Arranged, tables: PairTables) -> Layout:
        """The layout of records and their candidates, before proposals are shared out."""
        n, files = len(arranged.values), len(self.records.files)
        start = arranged.block_start
        by_file = self.distortion == "file"
        even = even_grades(tables.candidate_start)
        return Layout(
            values=arranged.values,
            field_start=self.field_start,
            exact=self.exact,
            given=self.given,
            near=self.near,
            **self.near_tables,
            block_start=start,
            block_name=arranged.block_name,
            place=(np.arange(n) - np.repeat(start[:-1], np.diff(start))).astype(np.int32),
            cell=arranged.cell,
            cell_start=arranged.cell_start,
            cell_file=arranged.cell_file,
            single=self.single,
            kind_step=np.int64(1) << (self.partition_prior.bits * np.arange(files, dtype=np.int64)),
            kind_bits=self.partition_prior.bits,
            changing=self.changing,
            time=self.time,
            rate_row=np.arange(files, dtype=np.int32) if by_file else np.zeros(files, np.int32),
            candidate_start=tables.candidate_start,
            candidates=tables.candidates,
            grade=even if tables.grade is None else tables.grade,
            cut=np.empty(0, np.uint32),
            alias=np.empty(0, np.int32),
            proposals=np.empty(0),
            uniform_share=0,
        )

    def share_out(
        self,
        layout: Layout,
        tables: PairTables,
        proposals: int | None,
        totals: Totals,
        block_weight: int | None = None,
    ) -> Layout:
        """The layout with `proposals` per sweep (default: usual ones), shared out over all blocks.

        `totals` are those of all records; `block_weight` is that of all blocks, where they have
        weights of their own.
        """
        usual = usual_proposals(self.size, PROPOSALS_PER_RECORD)
        per_sweep = usual if proposals is None else proposals
        uniform = tables.uniform_share * per_sweep
        layout = with_grades(layout, layout.grade, per_sweep - uniform, uniform, totals)
        if tables.block_weight is None:
            return layout
        total = int(tables.block_weight.sum()) if block_weight is None else block_weight
        if total == 0:
            return layout
        expected = tables.block_weight.astype(np.float64) * (per_sweep / total)
        return layout._replace(proposals=expected)

    def with_pairs(self, pairs: PairChoice) -> "Model":
        """The same model with another choice of pairs."""
        other = replace(self, pairs=pairs)
        fixed = {name: value for name, value in vars(self).items() if name not in vars(other)}
        vars(other).update(fixed)  # what was computed from the records already
        return other

    def over(self, records: Records, coded: Sequence[CodedField]) -> "Model":
        """The same model over some of its records, with what was counted over all of them."""
        other = copy(self)
        object.__setattr__(other, "records", records)
        for name in ("order", "block_sizes"):
            vars(other).pop(name, None)
        vars(other)["coded"] = tuple(coded)
        return other


def usual_proposals(records: int, per_record: float, tuned: bool = False) -> float:
    """Proposals of a sweep: in proportion to the records, and never too few."""
    return max(per_record * records, LEAST_PROPOSALS * (TUNED_SHARE if tuned else 1.0))


def as_fields(fields: Sequence[str | Field]) -> list[Field]:
    """Read plain column names as categorical fields."""
    return [Categorical(part) if isinstance(part, str) else part for part in fields]
