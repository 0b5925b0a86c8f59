"""Similar values are found, all of them, without comparing all pairs."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rapidfuzz.distance import DamerauLevenshtein, JaroWinkler, Levenshtein

from smered import similar
from smered.errors import ConfigError
from smered.fields.keys import digits, hub_key, qgram, sound
from smered.similar import find_similar, neighbours

WORDS = st.lists(st.text("abc", min_size=0, max_size=9), min_size=2, max_size=25, unique=True)
DISTANCE = {"damerau": DamerauLevenshtein, "levenshtein": Levenshtein}


def by_brute_force(values, kind, threshold):
    found = {}
    for i, j in itertools.combinations(range(len(values)), 2):
        if kind == "jaro-winkler":
            score, edits = JaroWinkler.normalized_similarity(values[i], values[j]), 0
        else:
            edits = DISTANCE[kind].distance(values[i], values[j])
            score = 1 - edits / max(len(values[i]), len(values[j]))
        if score >= threshold - 1e-9 and edits <= 2:
            found[i, j] = score
    return found


@pytest.mark.parametrize("kind", ["damerau", "levenshtein", "jaro-winkler"])
@given(values=WORDS, threshold=st.sampled_from([0.5, 0.6, 0.7, 0.8, 0.85, 0.9]))
@settings(max_examples=60, deadline=None)
def test_no_similar_pair_is_missed_and_none_is_invented(kind, values, threshold):
    one, two, score = find_similar(values, kind, threshold)
    found = dict(zip(zip(one.tolist(), two.tolist(), strict=True), score, strict=True))
    assert found == pytest.approx(by_brute_force(values, kind, threshold))


@pytest.mark.parametrize("kind", ["damerau", "levenshtein"])
@given(
    values=st.lists(st.text("ab", min_size=7, max_size=24), min_size=2, max_size=15, unique=True)
)
@settings(max_examples=100, deadline=None)
def test_no_pair_of_very_long_values_is_missed(kind, values):
    """As if texts of more than ten letters were very long."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(similar, "LONGEST", 10)
        one, two, score = find_similar(values, kind, 0.7)
    found = dict(zip(zip(one.tolist(), two.tolist(), strict=True), score, strict=True))
    assert found == pytest.approx(by_brute_force(values, kind, 0.7))


def test_very_long_values_take_neither_room_nor_time():
    rng = np.random.default_rng(0)
    text = "".join(rng.choice(list("abcdefgh"), 10_000))
    values = ["-" * 400, "-" * 401, "Ann", "-" * 90, "-" * 88, text, text[:5000] + text[5001:]]
    one, two, score = find_similar(values, "damerau", 0.8)
    assert list(zip(one.tolist(), two.tolist(), strict=True)) == [(0, 1), (3, 4), (5, 6)]
    assert score == pytest.approx([400 / 401, 88 / 90, 9999 / 10_000])


def test_long_values_are_compared_by_jaro_and_winkler_too():
    rng = np.random.default_rng(0)
    values = sorted({"".join(rng.choice(list("abcdef "), 24)) for _ in range(60)})
    values += [value[:-1] + "x" for value in values[:20]]
    one, two, _ = find_similar(values, "jaro-winkler", 0.8)
    assert set(zip(one.tolist(), two.tolist(), strict=True)) == set(
        by_brute_force(values, "jaro-winkler", 0.8)
    )


def test_parts_of_the_rests_find_the_same_pairs(monkeypatch):
    rng = np.random.default_rng(1)
    values = sorted({"".join(rng.choice(list("abcd"), 7)) for _ in range(400)})
    whole = find_similar(values, "damerau", 0.7)
    monkeypatch.setattr(similar, "RESTS_AT_ONCE", 500)
    monkeypatch.setattr(similar, "PAIRS_AT_ONCE", 100)
    parts = find_similar(values, "damerau", 0.7)
    for one, other in zip(whole, parts, strict=True):
        assert (one == other).all()
    assert len(whole[0]) > 100


def test_a_similarity_of_the_users_own():
    one, two, score = find_similar(["a", "ab", "b"], lambda x, y: float(x[0] == y[0]), 0.5)
    assert (one.tolist(), two.tolist(), score.tolist()) == ([0], [1], [1.0])
    with pytest.raises(ConfigError, match="between 0 and 1"):
        find_similar(["a", "b"], lambda x, y: 2.0, 0.5)
    with pytest.raises(ConfigError, match="3001 are too many"):
        find_similar([str(i) for i in range(3001)], lambda x, y: 0.0, 0.5)


def test_an_unknown_similarity_is_an_error():
    with pytest.raises(ConfigError, match="no similarity 'damerou'; did you mean 'damerau'"):
        find_similar(["a", "b"], "damerou", 0.5)


def test_neighbours_are_listed_from_both_sides_once():
    found = neighbours(
        np.array([0, 0, 2]), np.array([2, 1, 0]), np.array([0.5, 0.6, 0.9]), levels=4
    )
    assert found.start.tolist() == [0, 2, 3, 4, 4]
    assert found.level.tolist() == [1, 2, 0, 0]
    assert found.similarity.tolist() == [0.6, 0.9, 0.6, 0.9]  # of two, the larger


def test_keys_survive_typos():
    assert sound("Schmidt") == sound("schmitt")
    assert sound("Müller") == sound("muler")
    assert sound("meier") != sound("becker")
    assert qgram("anna") == qgram("ANNA")
    assert digits("1950") == digits("1905")
    found = neighbours(np.array([0, 1]), np.array([1, 2]), np.array([0.9, 0.9]), levels=4)
    # 0 - 1 - 2, of which 1 is the commonest; 3 is alone
    assert hub_key(found, np.array([0.1, 0.6, 0.1, 0.2])).tolist() == [0, 0, 0, 1]
