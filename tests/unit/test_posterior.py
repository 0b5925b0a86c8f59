"""Every question's answer equals a naive computation from the expanded draws."""

from collections import Counter
from itertools import combinations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from smered.errors import ConfigError, DataError
from smered.fields import Categorical
from smered.model import Model
from smered.posterior import Posterior
from smered.posterior import sets as sets_module
from smered.posterior.draws import common_draws
from smered.posterior.estimate import expected_loss
from smered.records import Records
from smered.sampler import Settings
from smered.store.lifetimes import Held, LifetimeRecorder, Lifetimes

FILES = ("a", "b", "c")


class FakeRun:
    """Any linkages as a stored run."""

    def __init__(self, linkages, model):
        self._model, order = model, model.order
        self.settings = Settings(draws=len(linkages[0]), chains=len(linkages))
        self._draws = len(linkages[0])
        tables = []
        for chain, draws in enumerate(linkages):
            recorder, position = LifetimeRecorder(chain, len(order)), np.arange(len(order))
            for number, labels in enumerate(draws):
                tables.append(recorder.add(number, Held(position, labels, order)))
            tables.append(recorder.living(self._draws - 1))
        self._lifetimes = Lifetimes.from_table(
            pa.concat_tables(tables),
            records=len(order),
            chains=len(linkages),
            draws=self.draws_done(),
        )

    def model(self):
        return self._model

    def draws_done(self):
        return [self._draws] * self.settings.chains

    def read(self, kind):
        raise NotImplementedError(kind)

    def lifetimes(self):
        return self._lifetimes


def canonical(labels):
    first = {}
    return np.array([first.setdefault(label, i) for i, label in enumerate(labels)], np.int32)


@st.composite
def posteriors(draw):
    """A posterior of random linkages, and the linkages themselves (chains, draws, records)."""
    n = draw(st.integers(1, 8))
    chains, draws = draw(st.integers(1, 3)), draw(st.integers(1, 6))
    files = draw(st.lists(st.sampled_from(FILES), min_size=n, max_size=n))
    change = st.tuples(st.integers(0, n - 1), st.integers(0, n - 1))
    linkages = []
    for _ in range(chains):
        labels, chain = list(range(n)), []
        for _ in range(draws):
            for record, label in draw(st.lists(change, max_size=3)):
                labels[record] = label
            chain.append(canonical(labels))
        linkages.append(chain)
    table = pa.table({"file": files, "f": ["x"] * n})
    records = Records.from_frames(table, columns=["f"], file_column="file")
    # linkages are of records in kernel order; with one block that is the input order
    model = Model(records, ["f"])
    assert (model.order == np.arange(n)).all()
    return Posterior(FakeRun(linkages, model)), np.array(linkages)


def clusters(labels):
    return [tuple(np.flatnonzero(labels == name).tolist()) for name in np.unique(labels)]


def all_draws(linkages):
    return linkages.reshape(-1, linkages.shape[2])


@settings(max_examples=150, deadline=None)
@given(posteriors())
def test_linkages_are_kept_without_loss(case):
    posterior, linkages = case
    for chain, draws in enumerate(linkages):
        for draw, labels in enumerate(draws):
            assert posterior.linkage(chain, draw).tolist() == labels.tolist()


@settings(max_examples=150, deadline=None)
@given(posteriors())
def test_counts(case):
    posterior, linkages = case
    n = linkages.shape[2]
    expected = np.array([[len(np.unique(labels)) for labels in chain] for chain in linkages])
    assert posterior.entities().draws.tolist() == expected.tolist()
    assert posterior.entities().mean == pytest.approx(expected.mean())
    file = posterior.records.file
    overlap, sizes = posterior.overlap(), posterior.cluster_sizes()
    for chain in range(linkages.shape[0]):
        for draw in range(linkages.shape[1]):
            found = clusters(linkages[chain, draw])
            patterns = Counter(
                tuple(posterior.records.files[i] for i in sorted({int(file[r]) for r in cluster}))
                for cluster in found
            )
            got = {kind: counts.draws[chain, draw] for kind, counts in overlap.items()}
            assert {kind: count for kind, count in got.items() if count} == patterns
            got = {kind: counts.draws[chain, draw] for kind, counts in sizes.items()}
            assert {k: c for k, c in got.items() if c} == Counter(map(len, found))
    assert overlap[("nobody",)].mean == 0
    assert sum(size * counts.mean for size, counts in sizes.items()) == pytest.approx(n)


@settings(max_examples=150, deadline=None)
@given(posteriors())
def test_match_probabilities(case):
    posterior, linkages = case
    draws, n = all_draws(linkages), linkages.shape[2]
    expected = {}
    for a, b in combinations(range(n), 2):
        probability = (draws[:, a] == draws[:, b]).mean()
        assert posterior.match_probability(a, b) == pytest.approx(probability)
        expected[a, b] = probability
    for threshold in (1e-9, 0.3, 1.0):
        table = posterior.pairs(threshold).to_pydict()
        found = {
            (a, b): p
            for a, b, p in zip(
                table["record_a"], table["record_b"], table["probability"], strict=True
            )
        }
        assert found == pytest.approx({k: p for k, p in expected.items() if p >= threshold - 1e-12})
        assert table["probability"] == sorted(table["probability"], reverse=True)
    if n >= 3:
        together = (draws[:, 0] == draws[:, 1]) & (draws[:, 0] == draws[:, 2])
        assert posterior.match_probability(0, 1, 2) == pytest.approx(together.mean())
    assert posterior.match_probability(0) == 1.0


@settings(max_examples=150, deadline=None)
@given(posteriors())
def test_matching_sets_and_estimates(case):
    posterior, linkages = case
    draws, n = all_draws(linkages), linkages.shape[2]
    counts = Counter(cluster for labels in draws for cluster in clusters(labels))
    best = []
    for record in range(n):
        own = {s: c for s, c in counts.items() if record in s}
        found = posterior.matching_sets(record)
        assert dict(found) == pytest.approx({s: c / len(draws) for s, c in own.items()})
        assert sum(p for _, p in found) == pytest.approx(1)
        ranked = sorted(own, key=lambda s: (-own[s], -len(s), s))
        assert [s for s, _ in found] == ranked
        best.append(ranked[0])
    for members, count in counts.items():
        probability = posterior.matching_set_probability(members)
        assert probability == pytest.approx(count / len(draws))
    assert [s for s, _ in posterior.most_probable_matching_sets()] == best

    shared = {s for s in best if all(best[r] == s for r in s)}
    found = posterior.shared_most_probable_matching_sets()
    assert {s for s, _ in found} == shared
    members = [record for s, _ in found for record in s]
    assert len(members) == len(set(members))  # shared sets never overlap

    estimate = posterior.estimate()
    expected = {s for s in shared if len(s) > 1}
    alone = set(range(n)) - {record for s in expected for record in s}
    partition = expected | {(record,) for record in alone}
    assert set(clusters(estimate.entity)) == partition
    for number, cluster in enumerate(clusters(estimate.entity)):
        assert estimate.probability[number] == pytest.approx(counts[cluster] / len(draws))


def naive_loss(labels, draws, loss):
    total = 0.0
    n = len(labels)
    for other in draws:
        if loss == "binder":
            total += sum(
                (labels[a] == labels[b]) != (other[a] == other[b])
                for a, b in combinations(range(n), 2)
            )
        else:
            for record in range(n):
                one, two = labels == labels[record], other == other[record]
                total += np.log(one.sum() * two.sum() / (one & two).sum() ** 2) / n
    return total / len(draws)


@settings(max_examples=100, deadline=None)
@given(posteriors(), st.sampled_from(["binder", "vi"]))
def test_expected_losses(case, loss):
    posterior, linkages = case
    draws = all_draws(linkages)
    total = len(draws)
    for labels in draws[:5]:
        found = expected_loss(labels, posterior.sets, total, loss)
        assert found == pytest.approx(naive_loss(labels, draws, loss), abs=1e-9)
    estimate = posterior.estimate(loss)
    assert sorted(np.unique(estimate.entity)) == list(range(len(estimate)))
    reached = naive_loss(estimate.entity, draws, loss)
    assert reached <= naive_loss(posterior.estimate().entity, draws, loss) + 1e-9
    # no single record can be moved to a better place
    for record in range(len(estimate.entity)):
        for target in range(len(estimate) + 1):
            moved = estimate.entity.copy()
            moved[record] = target
            assert naive_loss(moved, draws, loss) >= reached - 1e-9


@given(posteriors())
@settings(max_examples=50, deadline=None)
def test_entity_ids_name_the_same_cluster_the_same(case):
    posterior, _ = case
    estimate = posterior.estimate()
    ids = dict(zip(clusters(estimate.entity), estimate.entity_id, strict=True))
    assert len(set(ids.values())) == len(ids)
    again = posterior.estimate("binder")
    for cluster, name in zip(clusters(again.entity), again.entity_id, strict=True):
        assert ids.get(cluster, name) == name
    table = estimate.table(posterior.records)
    assert len(table) == len(posterior.records)


@settings(max_examples=100, deadline=None)
@given(posteriors())
def test_estimates_are_no_worse_than_draws(case):
    posterior, linkages = case
    total = len(all_draws(linkages))
    for loss, starts in (("binder", range(total)), ("vi", posterior.spread(min(10, total)))):
        found = expected_loss(posterior.estimate(loss).entity, posterior.sets, total, loss)
        spots = [divmod(s, posterior.draws) if loss == "binder" else s for s in starts]
        best = min(
            expected_loss(posterior.linkage(*spot), posterior.sets, total, loss) for spot in spots
        )
        assert found <= best + 1e-9


@settings(max_examples=50, deadline=None)
@given(posteriors())
def test_pairs_are_added_up_in_parts(case):
    posterior, _ = case
    whole = posterior.sets.pairs
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sets_module, "PAIRS_AT_ONCE", 2)
        parts = posterior.sets.pairs_of(posterior.sets.sets.records)
    assert all((one == other).all() for one, other in zip(whole, parts, strict=True))


def test_questions_about_records_that_are_not_there():
    records = Records.from_frames(pa.table({"f": ["x", "x"]}), columns=["f"])
    model = Model(records, [Categorical("f")])
    posterior = Posterior(FakeRun([[canonical([0, 0])]], model))
    with pytest.raises(DataError, match="numbers run from 0 to 1"):
        posterior.match_probability(0, 2)
    with pytest.raises(DataError, match="no file 'z'"):
        posterior.matching_sets(("z", 1))
    assert posterior.match_probability(("records", 1), ("records", "2")) == 1.0
    with pytest.raises(ConfigError, match="loss = 'x'"):
        posterior.estimate("x")
    with pytest.raises(DataError, match="no draw 5"):
        posterior.at(0, 5)
    with pytest.raises(DataError, match="no draw -1"):
        posterior.linkage(0, -1)


def test_a_pair_exactly_at_the_threshold_is_kept():
    records = Records.from_frames(pa.table({"f": ["x", "x"]}), columns=["f"])
    model = Model(records, ["f"])
    draws = [canonical([0, 0] if i < 55 else [0, 1]) for i in range(100)]
    posterior = Posterior(FakeRun([draws], model))
    assert len(posterior.pairs(0.55)) == 1
    assert len(posterior.pairs(0.56)) == 0


def test_draws_in_common():
    assert common_draws([500, 500, 500]) == (3, 500)
    assert common_draws([500, 3, 0]) == (1, 500)
    assert common_draws([271, 268, 0, 0]) == (2, 268)
    assert common_draws([0, 0]) == (2, 0)


def test_keys_are_numbered_alike_by_hashing_and_by_sorting(monkeypatch):
    keys = np.random.default_rng(0).integers(0, 50, 400).astype(np.uint64)
    few = sets_module.number_keys(keys)
    monkeypatch.setattr(sets_module, "MANY", 10)
    assert (sets_module.number_keys(keys) == few).all()
    assert (np.unique(few) == np.arange(len(np.unique(keys)))).all()
    assert few[0] == 0
