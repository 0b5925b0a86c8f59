"""Where the time of a sweep goes, on the survey once the chain is tuned."""

import time
from collections import defaultdict

import numpy as np
from numba import njit

from benchmarks.data import survey_model
from benchmarks.table import Row
from smered.execute import make_executor
from smered.joint import doubtful_fields, draw_jointly
from smered.kernels.moves import propose_blocks
from smered.kernels.rng import CHOOSE, PROPOSE, stream, words
from smered.kernels.sweep import count_blocks, weigh_blocks
from smered.layout import Clusters
from smered.sampler import (
    Settings,
    condition_prior,
    draw_parameters,
    keep_counts,
    log_posterior,
    run_chain,
)
from smered.state import SHARING, generator, tabulate

SWEEPS, BURN_IN = 100, 150


def parts():
    model = survey_model()
    execute = make_executor(model, model.layout(), 1)
    settings = Settings(draws=2, burn_in=BURN_IN, chains=1)
    *_, step = run_chain(model, settings, 0, execute)
    state, layout = step.state, execute.layout
    doubtful = doubtful_fields(execute, model)
    spent = defaultdict(list)

    def clock(name, work, *arguments):
        since = time.perf_counter()
        result = work(*arguments)
        spent[name].append(time.perf_counter() - since)
        return result

    for sweep in range(SWEEPS):
        state.sweep += 1
        rng = generator(0, 0, state.sweep)
        clock("theta and beta", draw_parameters, state, model, execute, rng)
        field = doubtful[sweep % len(doubtful)]
        clock("a rate with its links (every second sweep)", draw_jointly,
              state, model, field, execute, 0, 0, rng)  # fmt: skip
        prior = clock("owners of labels", share_labels, state, model, execute, rng)
        tables = clock("tables", tabulate, state.theta, state.beta, model)
        desk, clusters = execute._desks[0], Clusters(state.entity, *execute._rings)
        for counts in desk.statistics:
            counts.fill(0)
        blocks, place = len(layout.proposals), (0, 0, state.sweep, layout, tables)
        clock("rings and weights", weigh_blocks,
              0, blocks, layout, tables, clusters, desk.scratch)  # fmt: skip
        clock("proposals", propose_blocks, 0, blocks, *place, prior, clusters, *desk)
        clock("counts of y and z", count_blocks, 0, blocks, *place, clusters, *desk)
        state.entities = int(desk.statistics.entities[0])
        clock("y and z of agreeing values", keep_counts,
              state, desk.statistics, tables, model, 0, 0)  # fmt: skip
        clock("log posterior", log_posterior, state, model, execute, desk.statistics)
    usual = {name: np.sort(times)[: SWEEPS // 2].mean() for name, times in spent.items()}
    rows = [Row(f"survey, part of a sweep: {name}", s * 1e3, "ms", "") for name, s in usual.items()]
    each = usual["proposals"] / layout.proposals.sum() * 1e9
    numbers = random_numbers() * 1e9
    return [
        *rows,
        Row("survey: one proposal of a tuned chain", each, "ns", ""),
        Row("the random numbers of one proposal", numbers, "ns", ""),
    ]


def share_labels(state, model, execute, rng):
    """The free labels of every block, and what clusters weigh."""
    prior = condition_prior(state, model, rng)
    by_group = execute.by_group(prior, 0, 0, state.sweep, SHARING)
    return execute.by_block(by_group, 0, 0, state.sweep, SHARING)


@njit
def draw_words(times):
    """The two calls of the generator that a proposal makes, so often."""
    one, two = stream(1, 0, 0, 0, PROPOSE), stream(1, 0, 0, 0, CHOOSE)
    total = np.uint64(0)
    for t in range(times):
        total ^= words(one, t)[0] ^ words(two, t)[1]
    return total


def random_numbers(times=1_000_000):
    """Seconds of one proposal's random numbers, best of several."""
    best = np.inf
    for _ in range(6):
        since = time.perf_counter()
        draw_words(times)
        best = min(best, (time.perf_counter() - since) / times)
    return best
