"""An analysis run on many linked data sets, and what it says altogether."""

import warnings
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from smered.errors import ConfigError, DataError, DataWarning
from smered.posterior.draw import DrawView
from smered.posterior.linked import Layout, LinkedTables
from smered.progress import counting
from smered.propagate.fit import Fit, Sample, as_outcome
from smered.propagate.pool import Pooled, check_level, mix, pool

if TYPE_CHECKING:
    from smered.posterior.posterior import Posterior

__all__ = ["Analysis", "Failure", "Propagation", "run_analysis"]

Analysis = Callable[[pa.Table], Any]
FINE = 0.1  # of a standard error: a Monte Carlo error up to this does not matter


class Failure(NamedTuple):
    """A draw on which an analysis failed, and its error."""

    chain: int
    draw: int
    error: str

    def __str__(self) -> str:
        return f"chain {self.chain}, draw {self.draw}: {self.error}"


@dataclass(frozen=True)
class Propagation:
    """What an analysis of linked data says, with the doubt about the linkage in it."""

    pooled: Pooled
    outcomes: tuple[Fit | Sample, ...]  # of each data set that could be analysed
    spots: tuple[tuple[int, int], ...]  # its chain and draw
    failures: tuple[Failure, ...]

    def table(self) -> pa.Table:
        """One row per estimate: its interval, degrees of freedom, and what the linkage adds."""
        return self.pooled.table()

    def __str__(self) -> str:
        width = max(map(len, self.pooled.names))
        lines = [f"{'':{width}}   estimate  std. error   {self.pooled.level:.0%} interval"
                 "           due to linkage"]  # fmt: skip
        for row in self.table().to_pylist():
            interval = f"{row['lower']:.4g} to {row['upper']:.4g}"
            lines.append(
                f"{row['term']:{width}} {row['estimate']:>10.4g}  {row['std_error']:>10.4g}   "
                f"{interval:<21} {row['linkage_share']:>13.1%}"
            )
        failed = f"; {len(self.failures)} failed" if self.failures else ""
        return "\n".join([*lines, f"{len(self.outcomes)} linked data sets{failed}"])


def run_analysis(
    posterior: "Posterior",
    analysis: Analysis,
    draws: int,
    layout: Layout,
    columns: Sequence[str] | None,
    level: float,
    threads: int,
    progress: bool,
) -> Propagation:
    """Run an analysis on evenly spaced draws and pool what it returns; see `propagate`."""
    check_level(level)
    if draws < 1:
        raise ConfigError(f"draws = {draws} must be at least 1")
    needs = getattr(analysis, "needs", None)
    if needs is not None:  # it knows better than anybody
        columns = needs(LinkedTables(posterior, layout, None).columns)
    tables = LinkedTables(posterior, layout, columns)
    spots = posterior.spaced(-(-draws // posterior.chains))

    def work(view: DrawView) -> Fit | Sample | Exception:
        try:
            return as_outcome(analysis(tables.of(view)))
        except Exception as error:  # whatever a user's function raises
            return error

    with counting("Analysing linked data", len(spots), show=progress) as advance:
        found = []
        for outcome in in_parallel(work, posterior.views(spots), threads):
            found.append(outcome)
            advance()
    return put_together(found, spots, level)


def in_parallel(
    work: Callable[[DrawView], Any], views: Iterator[DrawView], threads: int
) -> Iterator[Any]:
    """Results in order, with a few draws in memory at a time."""
    waiting: deque[Future[Any]] = deque()
    with ThreadPoolExecutor(threads, thread_name_prefix="analysis") as workers:
        for view in views:
            waiting.append(workers.submit(work, view))
            if len(waiting) > 2 * threads:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def put_together(
    found: Sequence[Fit | Sample | Exception], spots: Sequence[tuple[int, int]], level: float
) -> Propagation:
    """Pool or mix what an analysis returned; name the draws on which it failed."""
    kinds = Counter((type(o), o.names) for o in found if not isinstance(o, Exception))
    usual = kinds.most_common(1)[0][0] if kinds else None
    outcomes: list[Fit | Sample] = []
    kept, failures = [], []
    for outcome, spot in zip(found, spots, strict=True):
        if isinstance(outcome, Exception):
            text = " ".join(f"{type(outcome).__name__}: {outcome}".split())
            failures.append(Failure(*spot, text))
        elif usual is not None and (type(outcome), outcome.names) != usual:
            failures.append(Failure(*spot, differing(outcome, *usual)))
        else:
            outcomes.append(outcome)
            kept.append(spot)
    if not outcomes:
        raise DataError(f"the analysis failed on every draw; {failures[0]}") from next(
            each for each in found if isinstance(each, Exception)
        )
    if failures:
        warnings.warn(
            f"the analysis failed on {len(failures)} of {len(found)} draws, which are left out; "
            f"the first: {failures[0]}",
            DataWarning,
            stacklevel=4,
        )
    chain = np.array([spot[0] for spot in kept])
    pooled = (
        pool([each for each in outcomes if isinstance(each, Fit)], level, chain)
        if isinstance(outcomes[0], Fit)
        else mix([each for each in outcomes if isinstance(each, Sample)], level, chain)
    )
    rough = np.flatnonzero(~(pooled.mcse <= FINE * pooled.std_error))
    if len(rough):
        names = ", ".join(pooled.names[i] for i in rough)
        few = "not known" if np.isnan(pooled.mcse).any() else "above a tenth of its standard error"
        warnings.warn(
            f"the Monte Carlo error of {names} is {few}; use more draws, or extend the run",
            DataWarning,
            stacklevel=4,
        )
    return Propagation(pooled, tuple(outcomes), tuple(kept), tuple(failures))


def differing(outcome: Fit | Sample, kind: type, names: tuple[str, ...]) -> str:
    """Say what an outcome has that the usual one lacks, and the other way round."""
    if type(outcome) is not kind:
        return "the analysis returned estimates for some draws and numbers for others"
    more = [name for name in outcome.names if name not in names]
    less = [name for name in names if name not in outcome.names]
    parts = [f"it has {', '.join(more)}"] if more else []
    parts += [f"it lacks {', '.join(less)}"] if less else []
    return (
        f"other terms than in most draws: {' and '.join(parts) or 'another order'}; name the "
        "levels of categories, or leave rare ones out"
    )
