"""Small data sets whose posterior can be enumerated, and the chain run on them."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pyarrow as pa

from smered.execute import make_executor
from smered.fields import Categorical, Date, Joint, Number, Text
from smered.model import Model
from smered.pairs import PairTables
from smered.priors import ClusterSizes, UniformLabels
from smered.records import Records
from smered.sampler import condition_prior, keep_counts
from smered.state import ONE_CLASS, Classes, check_state, generator, start_state, tabulate

PROPOSALS = 20


NEAR = {
    # values near each other in a chain, and one near none
    "text": (Text("second", threshold=0.5, scale=1.5, a=1, b=4), ["anna", "anne", "hanne", "otto"]),
    "text-that-may-equal": (
        Text("second", threshold=0.5, scale=1.5, may_equal=True, a=1, b=4),
        ["anna", "anne", "hanne", "otto"],
    ),
    "number": (Number("second", within=2, scale=1.5, a=1, b=4), ["1950", "1951", "1905", "x"]),
    "date": (
        Date("second", scale=1.5, a=1, b=4),
        ["1950-03-04", "1950-04-03", "1951-03-04", "2001-12-31"],
    ),
}


def joint_field(kind, changes=False):
    """Two columns, of which records may lack one; "near": the first has similar values."""
    first = Text("second", threshold=0.5, scale=1.5) if kind == "near" else "second"
    return Joint(first, "third", name="both", a=1, b=4, changes=changes, slips=kind == "slips")


def tiny_model(
    *, blocks=1, exact=False, near=None, joint=None, alike=False, changing=False, **settings
):
    """Five records (six in two blocks) with agreement, disagreement and missing values.

    `near`: a kind of field whose distorted values fall near the true one, in place of the second;
    `joint`: "near", "slips" or "alike", two columns with gaps in its place; `alike`: most records
    show the same value there; `changing`: its true value changes over time.
    """
    rows = {
        "file": ["A", "A", "B", "B", "C"] + ["C"] * (blocks - 1),
        "first": ["x", "x", "x", "y", None] + ["y"] * (blocks - 1),
        "second": ["p", "q", "p", "p", "q"] + ["p"] * (blocks - 1),
        "block": ["1", "1", "1", "1", "1"] if blocks == 1 else ["1", "1", "1", "2", "2", "2"],
    }
    fields = [Categorical("first", a=2, b=3), Categorical("second", a=1, b=4)]
    if near:
        fields[1], values = NEAR[near]
        shown = ([0, 0, 0, 1, 0] if alike else [0, 1, 0, 2, 3]) + [1] * (blocks - 1)
        rows["second"] = [values[i] for i in shown]
    if joint:
        fields[1] = joint_field(joint, changing)
        rows["second"] = ["anna", "anne", "anna", None, "anna"] + ["otto"] * (blocks - 1)
        rows["third"] = ["1", "1", None, "1", "2"] + ["1"] * (blocks - 1)
    if changing:
        fields[1] = fields[1] if joint else replace(fields[1], changes=True)
        settings["time_order"] = ("B", "A", "C")
    if exact:
        rows["sure"] = ["u", "u", "u", "u", None] + ["v"] * (blocks - 1)
        fields.append(Categorical("sure", b=np.inf))
    records = Records.from_frames(
        pa.table(rows),
        columns=[name for field in fields for name in field.columns],
        file_column="file",
        blocks="block",
    )
    return Model(records, fields, **{"prior": UniformLabels()} | settings)


class HandPicked:
    """Candidate lists written by hand, and their grades, as uneven as they can be."""

    def __init__(self, lists, uniform_share=0.2):
        self.lists, self.uniform_share = lists, uniform_share
        slots = sum(map(len, lists))
        self.grade = (np.arange(slots) * 37 % 80 * 2 + 60).astype(np.uint8)

    def weight(self, record, partners):
        """The weight of some of a record's candidates."""
        first = sum(map(len, self.lists[:record]))
        own = zip(self.lists[record], self.grade[first:], strict=False)
        return sum(int(grade) for partner, grade in own if partner in partners)

    def patterns(self, records):
        return []

    def tables(self, records, patterns=()):
        return PairTables(
            candidate_start=np.cumsum([0] + [len(own) for own in self.lists]),
            candidates=np.array([partner for own in self.lists for partner in own], np.int32),
            uniform_share=self.uniform_share,
            grade=self.grade,
        )


def fixed_parameters(model):
    """Level probabilities and distortion rates that make links neither certain nor rare."""
    theta = [
        np.linspace(1, 2, len(part.mu)) / np.linspace(1, 2, len(part.mu)).sum()
        if part.similar is None
        else part.near.share
        for part in model.coded
    ]
    rows, fields = model.observed.shape
    beta = 0.1 + 0.2 * np.arange(rows * fields).reshape(rows, fields) / (rows * fields)
    return theta, np.where(model.exact, 0.0, beta)


CLOSENESS = 0.7


def fixed_classes(model):
    """Latent classes as different as can be; one if there are none."""
    if model.classes == 1:
        return ONE_CLASS
    rng = np.random.default_rng(4)
    theta = np.ones(model.class_shape)
    for column in np.flatnonzero(~model.near):
        own = slice(*model.field_start[column : column + 2])
        theta[own] = rng.dirichlet(np.ones(own.stop - own.start), model.classes).T
    return Classes(rng.dirichlet(np.ones(model.classes)), theta)


def fixed_change(model):
    """Rates of change from one time to the next, as different as can be."""
    steps, fields = model.change_shape
    rates = np.tile(np.linspace(0.25, 0.6, max(steps, 1))[:steps, None], (1, fields))
    return np.where(model.changing, rates, 0.0)


def fixed_hyperparameters(model):
    """Uneven shares and weights, and blocks that are not much alike."""
    prior = model.partition_prior
    values = prior.start(len(model.records))
    if isinstance(model.prior, ClusterSizes):
        shares = len(prior.kinds.mass)
        values[:shares] *= np.linspace(1.0, 2.0, shares)
        values[:shares] /= values[:shares].sum()
        values[shares : shares + len(prior.own)] = 1.5
    return values


def fixed_tables(model, theta, beta):
    """What kernels look up, at these parameters."""
    closeness = np.where(model.close, CLOSENESS, 0.0)
    return tabulate(
        np.concatenate(theta), beta, model, closeness, fixed_classes(model), fixed_change(model)
    )


def run_fixed(model, theta, beta, sweeps, *, threads=1, seed=1, in_logs=False):
    """Frequencies of partitions with theta and beta held fixed."""
    layout = model.layout(proposals=PROPOSALS)
    execute = make_executor(model, layout, threads)
    state = start_state(model, layout, 1, seed)
    state.hyperparameters = fixed_hyperparameters(model)
    tables = fixed_tables(model, theta, beta)
    if in_logs:
        tables = tables._replace(small=1)
    n, order = len(model.records), model.order
    visited = np.empty((sweeps, n), np.int64)
    for sweep in range(sweeps):
        state.sweep = sweep + 1
        prior = condition_prior(state, model, generator(seed, 1, state.sweep))
        statistics = execute.sweep(state, tables, prior, seed, 1)
        state.entities = int(statistics.entities[0])
        visited[sweep] = state.entity
        if sweep % 5000 == 0:
            keep_counts(state, statistics, tables, model, seed, 1)
            state.theta, state.beta = np.concatenate(theta), beta
            check_state(state, model, layout)
    execute.close()
    # back to input order, clusters named by their first record there
    labels = np.empty_like(visited)
    labels[:, order] = visited
    counts = Counter()
    for row, times in zip(*np.unique(labels, axis=0, return_counts=True), strict=True):
        first = {}
        counts[tuple(first.setdefault(label, i) for i, label in enumerate(row))] += times
    return {partition: count / sweeps for partition, count in counts.items()}


def total_variation(found, expected):
    keys = set(found) | set(expected)
    return 0.5 * sum(abs(found.get(key, 0.0) - expected.get(key, 0.0)) for key in keys)
