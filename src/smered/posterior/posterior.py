"""The posterior of a run."""

import itertools
import os
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from smered.errors import ConfigError
from smered.layout import Floats, Int64s
from smered.posterior.attributes import count_attributes
from smered.posterior.canonical import canonical_table, true_value_probabilities
from smered.posterior.convergence import Diagnostics, chain_agreement, diagnose
from smered.posterior.datatree import make_datatree
from smered.posterior.draws import Record, StoredDraws
from smered.posterior.estimate import Estimate, Loss, make_estimate
from smered.posterior.evidence import FieldDraw, field_draw, set_evidence
from smered.posterior.linked import Imputations, Layout, LinkedTables, true_levels
from smered.posterior.sets import MatchingSets, lifetimes_with
from smered.posterior.traces import (
    Counts,
    Summary,
    cluster_size_counts,
    count_draws,
    overlap_counts,
    summarise,
)
from smered.store.rows import MOVES
from smered.suggest import suggest

if TYPE_CHECKING:
    import xarray

    from smered.population import Population
    from smered.propagate import Analysis, Propagation

__all__ = ["Posterior"]

STARTS = 10  # draws among which the search for an estimate takes one more start
MOST_PATTERNS = 64  # more overlap patterns than this are not diagnosed one by one


class Posterior(StoredDraws):
    """Draws of the linkage and the parameters, and what they say.

    Records are named by their number (in input order) or by file and id. Where chains were
    interrupted at different moments, the first draws of the first chains are used, as many as
    give most draws when each of these chains has the same number.
    """

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> "Posterior":
        """Open the posterior that a run folder holds, finished or not."""
        from smered.store.folder import RunFolder

        posterior = cls(RunFolder.open(Path(path)))
        _ = posterior.model  # damage is found now
        return posterior

    def __repr__(self) -> str:
        return (
            f"<Posterior of {len(self.records):,} records: {self.chains} chains of "
            f"{self.draws} draws, entities {self.entities()}>"
        )

    # -- numbers -----------------------------------------------------------------------------

    def entities(self) -> Summary:
        """Posterior of the number of entities, N = |#Lambda|."""
        return summarise(count_draws(self.lifetimes, self.chains, self.draws)[0])

    def overlap(self, by: str | None = None, draws: int | None = 50) -> Counts:
        """Entities by the exact set S of files that hold them.

        sum over j' of prod over i in S of I(j' in file i), prod over i not in S of
        (1 - I(j' in file i)), in every draw. `by` a field, kinds are (true value, files), counted
        in `draws` evenly spaced draws of each chain, for which true values are drawn again, also
        where no record shows one.
        """
        if by is None:
            return self._overlap
        found = count_attributes(self, by, "overlap", draws, fill=True)
        return Counts(tuple((level, files) for files, level in found.kinds), found.draws)

    @cached_property
    def _overlap(self) -> Counts:
        return overlap_counts(
            self.lifetimes, self.records.file, self.records.files, self.chains, self.draws
        )

    def cluster_sizes(self) -> Counts:
        """Entities by number of records: sum over j' of I(|R_j'| = s), in every draw."""
        return cluster_size_counts(self.lifetimes, self.chains, self.draws)

    # -- matching ----------------------------------------------------------------------------

    @cached_property
    def sets(self) -> MatchingSets:
        """All matching sets that occur in any draw."""
        return MatchingSets.of(self.lifetimes)

    def match_probability(self, *records: Record) -> float:
        """P(lambda_r is the same for all given records): the share of draws that link them."""
        numbers = self.numbers(records)
        return float(lifetimes_with(self.lifetimes, numbers).length.sum() / self._total)

    def pairs(self, min_probability: float = 0.01) -> pa.Table:
        """All pairs with at least this match probability, most probable first.

        P(lambda_r = lambda_s) for all r < s at once: the lengths of the lifetimes that hold both,
        over all draws. Columns record_a, record_b (numbers), file_a, id_a, file_b, id_b,
        probability.
        """
        if not 0.0 <= min_probability <= 1.0:
            raise ConfigError(f"min_probability = {min_probability} must be between 0 and 1")
        one, two, together = self.sets.pairs
        kept = np.flatnonzero(together / self._total >= min_probability)
        kept = kept[np.argsort(-together[kept], kind="stable")]
        columns: dict[str, object] = {"record_a": one[kept], "record_b": two[kept]}
        for side, numbers in (("a", one[kept]), ("b", two[kept])):
            columns[f"file_{side}"] = self._files(numbers)
            columns[f"id_{side}"] = self.records.ids.take(pa.array(numbers))
        return pa.table(columns | {"probability": together[kept] / self._total})

    def pair_probabilities(self, one: Int64s, two: Int64s) -> Floats:
        """Match probabilities of many pairs of records, given by number."""
        keys, draws = self._pair_keys
        wanted = np.minimum(one, two) * len(self.records) + np.maximum(one, two)
        if not len(keys):
            return np.zeros(len(wanted))
        at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
        return np.where(keys[at] == wanted, draws[at] / self._total, 0.0)

    @cached_property
    def _pair_keys(self) -> tuple[Int64s, Int64s]:
        """Every pair that is ever linked, as one number, ascending; and its draws."""
        one, two, draws = self.sets.pairs
        return one * len(self.records) + two, draws

    def matching_sets(self, record: Record) -> list[tuple[tuple[int, ...], float]]:
        """Every set that is a maximal matching set of the record in some draw, most probable first.

        P(Omega_A = 1) = (1 / S_G) sum over draws of Omega(A, Lambda): the paper's table for one
        record. The probabilities add up to 1.
        """
        holding = lifetimes_with(self.lifetimes, np.array([self.number(record)]))
        found = MatchingSets.of(holding)
        return [
            (tuple(found.sets.member_list(row)), float(found.draws[row] / self._total))
            for row in np.argsort(found.rank)
        ]

    def matching_set_probability(self, records: Iterable[Record]) -> float:
        """P(exactly these records are one entity): the share of draws with that cluster."""
        numbers = self.numbers(records)
        holding = lifetimes_with(self.lifetimes, numbers)
        return float(holding.length[holding.size == len(numbers)].sum() / self._total)

    def most_probable_matching_sets(self) -> list[tuple[tuple[int, ...], float]]:
        """For each record the set that is most often its matching set, with its probability.

        M_ij = argmax over A holding (i, j) of P(Omega_A = 1). Ties go to the larger set, then to
        the one that comes first in lexicographic order of record numbers.
        """
        chosen = self.sets.most_probable()
        sets = {row: tuple(self.sets.sets.member_list(row)) for row in np.unique(chosen).tolist()}
        share = self.sets.draws / self._total
        return [(sets[row], float(share[row])) for row in chosen.tolist()]

    def shared_most_probable_matching_sets(self) -> list[tuple[tuple[int, ...], float]]:
        """Sets that are the most probable matching set of every record they hold.

        {A : M_ij = A for all (i, j) in A}, with M_ij as in `most_probable_matching_sets`. No two of
        them overlap, so that linking within them is transitive.
        """
        return [
            (tuple(self.sets.sets.member_list(row)), float(self.sets.draws[row] / self._total))
            for row in self.sets.shared().tolist()
        ]

    def estimate(self, loss: Loss = "mpmms") -> Estimate:
        """One transitive linkage: the paper's ("mpmms"), or of least expected loss.

        "mpmms" links records exactly if they share a shared most probable matching set. With E the
        mean over draws Lambda, "binder" minimises over linkages L the pairs that one has and the
        other has not, E[sum over r < s of 1(L links r, s) xor 1(Lambda links r, s)]; "vi" minimises
        E[H(L) + H(Lambda) - 2 I(L, Lambda)], the variation of information; "f1" makes
        E[2 |L and Lambda|] / E[|L| + |Lambda|] largest, |.| counting linked pairs.
        """
        starts = self.spread(min(STARTS, self._total)) if loss == "vi" else []
        linkages = [self.linkage(*spot) for spot in starts]
        return make_estimate(self.sets, self._total, self.records, loss, linkages)

    def evidence(self, *records: Record) -> dict[str, float]:
        """How each field speaks for these records being one entity, as natural logs of odds.

        log P(values | one entity) - sum over r of log P(values of r | an entity of its own), with
        theta and beta at their posterior means. Positive speaks for one entity, negative against.
        With latent classes, each field is looked at as if it did not depend on the others.
        """
        numbers = self.numbers(records)
        (found,) = set_evidence(self, np.zeros(len(numbers), np.int64), numbers, 1)
        return dict(zip(self.theta, found.tolist(), strict=True))

    # -- true values -------------------------------------------------------------------------

    def attributes(self, field: str, by: str | None = None, draws: int | None = 50) -> Counts:
        """Entities by the true value of a field, in total or within groups, in every draw.

        sum over entities e of 1(y_el = v), with y drawn from its distribution given the draw.
        `by` is another field (its true value makes the groups) or "overlap" (the files that hold
        the entity). Kinds are levels, or (group, level). True values are drawn again for `draws`
        evenly spaced draws of each chain.
        """
        return count_attributes(self, field, by, draws)

    def canonical(self, estimate: Estimate | None = None, draws: int = 50) -> pa.Table:
        """One row per entity of the estimate, with each field's most probable true value.

        argmax over v of P(y_el = v | x of the entity's records), and that probability; all of
        them are in `true_value_probabilities`. Only values that some record of the entity shows are
        considered; where values change over time, that of the last file counts. Probabilities are
        exact given the entity's records, averaged over `draws` evenly spaced draws of each chain's
        theta and beta; with latent classes, as if fields did not depend on each other.
        """
        return canonical_table(estimate or self.estimate(), self.model, self.field_draws(draws))

    def true_value_probabilities(
        self, field: str, estimate: Estimate | None = None, draws: int = 50
    ) -> pa.Table:
        """P(y_el = v | x of the entity's records), for every entity and value that they show.

        Columns entity_id, value, probability; as in `canonical`, the most probable value first.
        """
        names = [part.name for part in self.model.coded]
        if field not in names:
            raise ConfigError(f"no field {field!r}; {suggest(field, names)}")
        column, chosen = names.index(field), estimate or self.estimate()
        owner, level, probability = true_value_probabilities(
            chosen.entity, column, self.model, self.field_draws(draws)[column]
        )
        order = np.lexsort((level, -probability, owner))
        return pa.table({
            "entity_id": pa.array(chosen.entity_id).take(pa.array(owner[order])),
            "value": self.model.coded[column].levels.take(pa.array(level[order])),
            "probability": probability[order],
        })  # fmt: skip

    def field_draws(self, draws: int) -> list[list[FieldDraw]]:
        """The parameters of each field in evenly spaced draws of each chain."""
        spots = self.spaced(draws)
        fields = range(len(self.model.coded))
        return [[field_draw(self, column, *spot) for spot in spots] for column in fields]

    # -- what comes after ---------------------------------------------------------------------

    def linked(
        self,
        draw: int | tuple[int, int] | Estimate,
        *,
        layout: Layout = "wide",
        columns: Sequence[str] | None = None,
    ) -> pa.Table:
        """The linked data set of one draw, or of an estimate.

        "wide": a row for each entity, with its true values and the other columns of each file's
        first record of it; a column that several files have is called `column_file`. The column
        `match_probability` is the least of any two of these records. "long": a row for each record,
        with its entity, the true values, and the other columns. `draw` counts through all chains,
        or is a chain and a draw of it. `columns` chooses some columns, and so the files.
        """
        tables = LinkedTables(self, layout, columns)
        if isinstance(draw, Estimate):
            first = np.unique(draw.entity, return_index=True)[1]
            levels = true_levels(self, draw) if tables.needs_true_values else None
            return tables.make(first[draw.entity], levels)
        spot = draw if isinstance(draw, tuple) else divmod(int(draw), self.draws)
        return tables.of(self.at(*spot))

    def imputations(
        self, m: int = 20, *, layout: Layout = "wide", columns: Sequence[str] | None = None
    ) -> Imputations:
        """The linked data sets of m evenly spaced draws; see `linked`."""
        return Imputations(self, self.spread(m), LinkedTables(self, layout, columns))

    def propagate(
        self,
        analysis: "Analysis",
        draws: int = 200,
        *,
        layout: Layout = "wide",
        columns: Sequence[str] | None = None,
        level: float = 0.95,
        threads: int | None = None,
        progress: bool = True,
    ) -> "Propagation":
        """What an analysis of linked data says when the linkage is not certain.

        `analysis` takes a linked data set (see `linked`) and returns a `smered.propagate.Fit` or a
        fitted statsmodels result, which are pooled by Rubin's rules, or a number, or numbers or
        arrays of posterior draws by name, which are mixed. It is run on about `draws` evenly
        spaced draws, in parallel. A draw on which it fails is named in a warning and left out.
        `columns` are those of the data set; ready analyses take those that they need.
        """
        from smered.propagate.run import run_analysis

        return run_analysis(
            self, analysis, draws, layout, columns, level, threads or os.cpu_count() or 1, progress
        )

    def population(
        self,
        methods: str | Sequence[str] | None = None,
        *,
        files: Sequence[str] | None = None,
        by: str | None = None,
        draws: int = 200,
        loss: Loss = "mpmms",
        level: float = 0.95,
    ) -> "Population":
        """How many entities there are, seen or not, from the overlap of the files.

        `methods`: "chapman" (two files), "loglinear", "chao", "graphs" (up to five files); the
        default is all that fit. Each is computed on about `draws` draws and mixed, and once more on
        the estimate of least `loss`, as if the linkage were certain. `files` chooses some files,
        `by` a field whose true values make strata, which are added up.
        """
        from smered.population.estimate import estimate_population

        return estimate_population(self, methods, files, by, draws, loss, level)

    # -- diagnostics -------------------------------------------------------------------------

    def scalars(self) -> dict[str, Floats]:
        """Every label-free number by chain and draw: what diagnostics look at."""
        rates = {
            name: self.beta[:, :, row, column]
            for row, file in enumerate(self.records.files if self.model.rate_rows > 1 else [""])
            for column, part in enumerate(self.model.coded)
            if not part.exact
            for name in [f"beta[{part.name}{f', {file}' if file else ''}]"]
        }
        changes = {
            f"change[{name}, {step}]": self.change[:, :, number, column]
            for column, name in enumerate(self.changing)
            for number, step in enumerate(self.steps)
        }
        overlap = {
            f"overlap[{', '.join(pattern)}]": counts.draws
            for pattern, counts in self.overlap().items()
        }
        return (
            {"entities": self.entities().draws, "log_posterior": self.trace("log_posterior")}
            | rates
            | changes
            | self.hyperparameters
            | (overlap if len(overlap) <= MOST_PATTERNS else {})
        )

    @property
    def changing(self) -> list[str]:
        """Fields whose true value changes over time."""
        model = self.model
        return [part.name for part, yes in zip(model.coded, model.changing, strict=True) if yes]

    @property
    def steps(self) -> list[str]:
        """The steps from one file to the next in time, as text."""
        order = self.model.time_order or self.records.files
        return [f"{one} to {two}" for one, two in itertools.pairwise(order)]

    def changes(self, field: str) -> dict[str, Summary]:
        """How often the true value of a field changed, by step from one file to the next in time.

        The share of entities whose value was drawn anew; the new one may happen to be the old.
        """
        names = self.changing
        if field not in names:
            raise ConfigError(
                f"field {field!r} does not change over time"
                + (f"; {suggest(field, names)}" if names else ": no field was set up with changes")
            )
        rates = self.change[:, :, :, names.index(field)]
        return {step: summarise(rates[:, :, i]) for i, step in enumerate(self.steps)}

    def diagnostics(self) -> Diagnostics:
        """R-hat, effective sample sizes, acceptance and agreement of chains, with a verdict."""
        return diagnose(
            self.scalars(),
            {name: self.trace(name) for name in MOVES},
            chain_agreement(self.lifetimes, self.chains, self.draws),
        )

    def first_verdict(self) -> Diagnostics:
        """What can be said from single numbers, without reading records and linkages."""
        traces = {name: self.trace(name) for name in ("entities", "log_posterior")}
        return diagnose(traces, {name: self.trace(name) for name in MOVES}, 0.0)

    def to_datatree(self) -> "xarray.DataTree":
        """The draws as an xarray DataTree with ArviZ's groups and dimensions."""
        return make_datatree(self)
