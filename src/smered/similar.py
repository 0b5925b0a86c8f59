"""Which values are similar: every pair above a threshold, without comparing all pairs."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from rapidfuzz.distance import DamerauLevenshtein, JaroWinkler, Levenshtein
from rapidfuzz.process import cdist, cpdist

from smered.errors import ConfigError
from smered.layout import Floats, Int32s, Int64s
from smered.suggest import suggest

__all__ = ["MOST_EDITS", "SIMILARITIES", "Neighbours", "Similarity", "find_similar", "neighbours"]

Similarity = str | Callable[[str, str], float]

SIMILARITIES: dict[str, Any] = {
    "damerau": DamerauLevenshtein.normalized_similarity,
    "levenshtein": Levenshtein.normalized_similarity,
    "jaro-winkler": JaroWinkler.normalized_similarity,
}
MOST_EDITS = 2  # that similar values lie apart: more of them in one value are no slip
LONGEST = 100  # letters of a text whose rests are listed
PIECES = 5  # of longer ones
MOST_COMPARED = 3000  # values of which a function that the user gives compares every pair
MOST_COMPARED_FAST = 50_000  # the same for our own, where no filter helps
MOST_RESTS = 300  # of a text, on average: with more of them, comparing all pairs is quicker
LONGEST_PREFIX, PREFIX_WEIGHT = 4, 0.1  # of Jaro and Winkler
RESTS_AT_ONCE, PAIRS_AT_ONCE = 2**25, 2**20
ROUNDING = 1e-9


class Neighbours(NamedTuple):
    """Similar values of one field, those of level i at start[i] : start[i + 1], in order."""

    start: Int64s  # (levels + 1,)
    level: Int32s
    similarity: Floats


def neighbours(one: Int64s, two: Int64s, similarity: Floats, levels: int) -> Neighbours:
    """Lists of neighbours from pairs of levels; of several similarities of a pair the largest."""
    both = np.concatenate((one * levels + two, two * levels + one))
    twice = np.concatenate((similarity, similarity))
    order = np.lexsort((-twice, both))
    both, twice = both[order], twice[order]
    first = np.append(True, both[1:] != both[:-1])[: len(both)]
    both = both[first]
    start = np.searchsorted(both, np.arange(levels + 1, dtype=np.int64) * levels)
    return Neighbours(start, (both % levels).astype(np.int32), twice[first])


def find_similar(
    values: Sequence[str], similarity: Similarity, threshold: float
) -> tuple[Int64s, Int64s, Floats]:
    """All pairs of different values that are at least so similar, and how similar they are.

    Similarities count from 0 to 1. By edits (`damerau`, `levenshtein`), similar values also lie at
    most two edits apart.
    """
    if callable(similarity):
        return compare_all(values, similarity, threshold)
    if similarity not in SIMILARITIES:
        raise ConfigError(
            f"no similarity {similarity!r}; {suggest(similarity, list(SIMILARITIES))}"
        )
    views = list((prefix_views if similarity == "jaro-winkler" else edit_views)(values, threshold))
    rests = [count_rests_of(texts, most) for texts, most, _ in views]
    if similarity == "jaro-winkler" and sum(map(sum, rests)) > MOST_RESTS * len(values):
        return compare_all_fast(values, threshold)
    found: list[NDArray[np.int64]] = [np.empty(0, np.int64)]
    for view in views:
        found.extend(sharing_pairs(*view))
    if similarity != "jaro-winkler":
        found.append(long_pairs(values))
    pairs = np.unique(np.concatenate(found))
    kept, scores = [np.empty(0, np.int64)], [np.empty(0)]
    for at in range(0, len(pairs), PAIRS_AT_ONCE):
        part = pairs[at : at + PAIRS_AT_ONCE]
        score = score_pairs(values, part // len(values), part % len(values), similarity)
        near = score >= threshold - ROUNDING
        kept.append(part[near])
        scores.append(score[near])
    pairs = np.concatenate(kept)
    return pairs // len(values), pairs % len(values), np.concatenate(scores)


def score_pairs(values: Sequence[str], one: Int64s, two: Int64s, similarity: str) -> Floats:
    """The similarity of each pair of values; 0 where they lie too many edits apart."""
    left, right = [values[i] for i in one], [values[i] for i in two]
    score = cpdist(left, right, scorer=SIMILARITIES[similarity], dtype=np.float64)
    if similarity != "jaro-winkler":
        longest = np.maximum([len(text) for text in left], [len(text) for text in right])
        edits = np.rint((1.0 - score) * longest)
        # exact fractions, so that a threshold does not fall to rounding
        score = np.where(edits <= MOST_EDITS, 1.0 - edits / np.maximum(longest, 1), 0.0)
    return np.asarray(score, np.float64)


def compare_all(
    values: Sequence[str], similarity: Callable[[str, str], float], threshold: float
) -> tuple[Int64s, Int64s, Floats]:
    """Compare every pair of values by a function that the user gives."""
    if len(values) > MOST_COMPARED:
        raise ConfigError(
            f"a similarity of your own compares all pairs of values: {len(values)} are too many, "
            f"{MOST_COMPARED} at most; use one of {', '.join(SIMILARITIES)}"
        )
    one, two = np.triu_indices(len(values), 1)
    score = np.array(
        [similarity(values[i], values[j]) for i, j in zip(one.tolist(), two.tolist(), strict=True)],
        np.float64,
    )
    if len(score) and not ((score >= 0) & (score <= 1)).all():
        raise ConfigError("a similarity must lie between 0 and 1")
    near = score >= threshold
    return one[near].astype(np.int64), two[near].astype(np.int64), score[near]


def compare_all_fast(values: Sequence[str], threshold: float) -> tuple[Int64s, Int64s, Floats]:
    """Compare every pair of values by Jaro and Winkler, some rows at a time."""
    if len(values) > MOST_COMPARED_FAST:
        raise ConfigError(
            f"jaro-winkler at {threshold} cannot search {len(values)} values as long as these; use "
            'a higher threshold, or similarity = "damerau"'
        )
    found: list[tuple[Int64s, Int64s, Floats]] = []
    rows = max(1, PAIRS_AT_ONCE * 4 // max(len(values), 1))
    for at in range(0, len(values), rows):
        score = cdist(
            values[at : at + rows],
            values[at:],
            scorer=SIMILARITIES["jaro-winkler"],
            dtype=np.float64,
            workers=-1,
        )
        one, two = np.nonzero(score >= threshold - ROUNDING)
        later = two > one
        found.append((one[later] + at, two[later] + at, score[one[later], two[later]]))
    one = np.concatenate([part[0] for part in found] or [np.empty(0, np.int64)])
    two = np.concatenate([part[1] for part in found] or [np.empty(0, np.int64)])
    return one, two, np.concatenate([part[2] for part in found] or [np.empty(0)])


View = tuple[Sequence[str], Int64s, NDArray[np.uint64]]


def edit_views(values: Sequence[str], threshold: float) -> Iterator[View]:
    """Texts of similarity t or more have a rest in common after taking (1 - t) of their letters.

    Very long ones have too many rests, and share none here: see `long_pairs`.
    """
    length = np.array([len(value) for value in values], np.int64)
    most = np.minimum(np.floor((1.0 - threshold) * length + ROUNDING).astype(np.int64), MOST_EDITS)
    long = length > LONGEST
    most[long] = 0
    salt = np.where(long, np.arange(1, len(values) + 1), 0).astype(np.uint64)
    texts = ["" if own else value for value, own in zip(values, long.tolist(), strict=True)]
    yield texts, most, salt


def long_pairs(values: Sequence[str]) -> Int64s:
    """Pairs that may lie two edits apart, of which one is very long, as one * texts + two.

    Cut the longer into five pieces. An edit touches one of them, or two if it exchanges letters
    where they meet; so one stands in the other text as it is, at most two letters away.
    """
    lengths = [len(value) for value in values]
    held = [i for i, length in enumerate(lengths) if length > LONGEST - MOST_EDITS]
    pieces: dict[tuple[int, int, str], list[int]] = {}
    for i in held:
        for begin, end in cuts(lengths[i]):
            pieces.setdefault((lengths[i], begin, values[i][begin:end]), []).append(i)
    present = {lengths[i] for i in held}
    found: set[int] = set()
    for i in held:
        for length in present.intersection(range(lengths[i], lengths[i] + MOST_EDITS + 1)):
            for begin, end in cuts(length):
                for place in range(max(begin - MOST_EDITS, 0), begin + MOST_EDITS + 1):
                    piece = values[i][place : place + end - begin]
                    for other in pieces.get((length, begin, piece), ()):
                        if other != i and max(length, lengths[i]) > LONGEST:
                            found.add(min(i, other) * len(values) + max(i, other))
    return np.array(sorted(found), np.int64)


def cuts(length: int) -> list[tuple[int, int]]:
    """Where the five pieces of a text begin and end.

    >>> cuts(12)
    [(0, 2), (2, 4), (4, 7), (7, 9), (9, 12)]
    """
    ends = [length * i // PIECES for i in range(PIECES + 1)]
    return list(itertools.pairwise(ends))


def prefix_views(values: Sequence[str], threshold: float) -> Iterator[View]:
    """Jaro and Winkler: texts that share a prefix, and of the sorted letters most.

    With a common prefix of l letters, a similarity of t needs Jaro's to be at least
    (t - l / 10) / (1 - l / 10) = j, which leaves at most 3 (1 - j) of a text's letters unmatched.
    """
    length = np.array([len(value) for value in values], np.int64)
    for prefix in range(LONGEST_PREFIX + 1):
        least = (threshold - PREFIX_WEIGHT * prefix) / (1.0 - PREFIX_WEIGHT * prefix)
        most = np.floor(3.0 * (1.0 - least) * length + ROUNDING).astype(np.int64)
        long_enough = np.flatnonzero(length >= prefix).tolist()
        texts = ["".join(sorted(values[i])) for i in long_enough]
        if prefix == LONGEST_PREFIX:  # the prefix tells enough
            texts, most = [""] * len(texts), np.zeros(len(values), np.int64)
        everywhere = [""] * len(values)
        for i, text in zip(long_enough, texts, strict=True):
            everywhere[i] = text
        starts = {value[:prefix]: number for number, value in enumerate(values)}
        salt = np.array([starts[value[:prefix]] for value in values], np.uint64)
        # texts too short for the prefix share it with none
        salt[length < prefix] += np.uint64(len(values)) * np.uint64(prefix + 1)
        yield everywhere, np.where(length < prefix, 0, most), salt


def count_rests_of(texts: Sequence[str], most: Int64s) -> Floats:
    """In how many ways at most so many letters can be taken from each text."""
    length = np.array([len(text) for text in texts], np.float64)
    ways, total = np.ones(len(texts)), np.ones(len(texts))
    for i in range(int(most.max(initial=0))):
        ways = np.where(i < np.minimum(most, length), ways * (length - i) / (i + 1), 0.0)
        total += ways
    return total


def sharing_pairs(
    texts: Sequence[str], most: Int64s, salt: NDArray[np.uint64]
) -> Iterator[NDArray[np.int64]]:
    """Pairs of texts with a rest and the salt in common, as one * texts + two, part by part."""
    from smered.kernels.neighbours import count_pairs, hash_rests, list_pairs

    length = np.array([len(text) for text in texts], np.int64)
    letters = np.frombuffer("".join(texts).encode("utf-32-le", "surrogatepass"), np.uint32)
    start = np.concatenate(([0], np.cumsum(length)))
    total = int(count_rests_of(texts, most).sum())
    parts = max(1, -(-total // RESTS_AT_ONCE))
    room = total if parts == 1 else int(1.2 * total / parts) + 10_000
    keys, owner = np.empty(room, np.uint64), np.empty(room, np.int32)
    taken = np.empty(int(most.max(initial=0)) + 1, np.int64)
    for part in range(parts):
        found = hash_rests(
            letters, start, most, salt, np.uint64(part), np.uint64(parts), taken, keys, owner
        )
        order = np.argsort(keys[:found], kind="stable")
        sorted_keys, sorted_owner = keys[:found][order], owner[:found][order]
        again = (np.diff(sorted_keys) == 0) & (np.diff(sorted_owner) == 0)  # of one text
        fresh = np.append(True, ~again)[:found]
        sorted_keys, sorted_owner = sorted_keys[fresh], sorted_owner[fresh]
        pairs = np.empty(count_pairs(sorted_keys), np.int64)
        yield np.unique(pairs[: list_pairs(sorted_keys, sorted_owner, len(texts), pairs)])
