"""Rung 5: the same seed gives the same bytes on any number of threads and after any pause."""

import copy

import numpy as np
import pytest

from smered.demo import paper_model
from smered.execute import Serial, Threads, make_executor
from smered.execute import threads as threads_module
from smered.fields import Joint
from smered.model import Model
from smered.pairs import RotatingBlocks
from smered.priors import ClusterSizes, Ewens, PitmanYor, UniformLabels
from smered.records import Records
from smered.sampler import Settings, run_chain
from smered.simulate import simulate, survey

PRIORS = [UniformLabels(), Ewens(), PitmanYor(5.0, 0.2), ClusterSizes()]
SETTINGS = Settings(draws=12, burn_in=0, chains=1, seed=11)


def make_model(prior=None, **settings):
    data = simulate(
        {("a",): 60, ("b",): 50, ("a", "b"): 90}, {"key": 12, "f": 9, "g": 7}, missing=0.05, seed=4
    )
    tables = {name: table.filter(table["key"].is_valid()) for name, table in data.tables.items()}
    records = Records.from_frames(tables, columns=data.fields, id="id", blocks="key")
    return Model(records, data.fields, prior=prior or UniformLabels(), **settings)


def fingerprint(state):
    return tuple(
        value.tobytes() if isinstance(value, np.ndarray) else value
        for value in vars(state).values()
    )


def run(model, execute, state=None, settings=SETTINGS):
    return [fingerprint(step.state) for step in run_chain(model, settings, 0, execute, state)]


@pytest.mark.parametrize("prior", PRIORS, ids=lambda prior: type(prior).__name__)
@pytest.mark.parametrize("threads", [2, 4])
def test_threads_give_the_same_bytes(prior, threads):
    model = make_model(prior, distortion="file")
    layout = model.layout()
    expected = run(model, make_executor(model, layout, 1))
    assert len(set(expected)) == len(expected)  # the chain moves
    execute = make_executor(model, layout, threads)
    assert isinstance(execute, Threads)
    assert run(model, execute) == expected
    execute.close()


TUNED = Settings(draws=8, burn_in=20, chains=1, seed=11)


def changing_model():
    """Blocks with shares of their own, and a place that changes."""
    data = survey(2, share=0.01)
    names = ["day", "month", "state", "office"]
    records = Records.from_frames(data.tables, columns=names, id="id", blocks=["sex", "year"])
    fields = ["day", "month", Joint("state", "office", changes=True)]
    return Model(records, fields, duplicates=False, time_order=tuple(data.tables))


@pytest.mark.parametrize(
    "make",
    [make_model, lambda: make_model(pairs=RotatingBlocks()),
     lambda: make_model(ClusterSizes(), pairs=RotatingBlocks()), changing_model],
    ids=["tuned", "rotating", "rotating-by-block", "changing-by-block"],
)  # fmt: skip
def test_threads_and_pauses_change_nothing_after_a_burn_in(make):
    """Grades, joint draws and rotating blocks: nothing that a checkpoint does not hold."""
    model = make()
    layout = model.layout()
    expected = run(model, Serial(model, layout), settings=TUNED)
    execute = Threads(model, layout, 3)
    assert run(model, execute, settings=TUNED) == expected
    execute.close()
    for pause in (11, 19, 20, 21, 25):
        chain = run_chain(model, TUNED, 0, Serial(model, layout))
        for _ in range(pause):
            state = copy.deepcopy(next(chain).state)
        assert run(model, Serial(model, layout), state, TUNED) == expected[pause:]


@pytest.mark.parametrize("rounds", [1, 3, 20])
def test_chunk_sizes_give_the_same_bytes(rounds, monkeypatch):
    model = make_model()
    layout = model.layout()
    expected = run(model, Serial(model, layout))
    monkeypatch.setattr(threads_module, "ROUNDS", rounds)
    execute = Threads(model, layout, 2)
    assert run(model, execute) == expected
    execute.close()


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_chunks_cover_every_block_once_and_end_small(threads):
    layout = make_model().layout()
    chunks = threads_module.shrinking_chunks(layout, threads)
    assert [b for first, last in chunks for b in range(first, last)] == list(
        range(len(layout.proposals))
    )
    assert chunks[0][1] - chunks[0][0] >= chunks[-1][1] - chunks[-1][0]


@pytest.mark.parametrize("prior", PRIORS, ids=lambda prior: type(prior).__name__)
def test_a_pause_changes_nothing(prior):
    model = make_model(prior)
    layout = model.layout()
    expected = run(model, Serial(model, layout))
    chain = run_chain(model, SETTINGS, 0, Serial(model, layout))
    for _ in range(5):
        step = next(chain)
    paused = copy.deepcopy(step.state)
    assert run(model, Serial(model, layout), paused) == expected[5:]


def test_seeds_and_chains_differ():
    model = make_model()
    execute = Serial(model, model.layout())
    first = run(model, execute)
    other_seed = run(model, execute, settings=Settings(draws=12, burn_in=0, chains=1, seed=12))
    assert first[-1] != other_seed[-1]
    second_chain = [fingerprint(s.state) for s in run_chain(model, SETTINGS, 1, execute)]
    assert first[-1] != second_chain[-1]


def test_the_survey_gives_the_same_bytes_on_one_two_and_four_threads():
    model = paper_model(survey())
    layout = model.layout()
    runs = []
    for threads in (1, 2, 4):
        execute = make_executor(model, layout, threads)
        runs.append(run(model, execute, settings=Settings(draws=3, burn_in=0, chains=1)))
        execute.close()
    assert runs[0] == runs[1] == runs[2]
