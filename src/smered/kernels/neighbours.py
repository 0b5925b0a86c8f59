"""Values that share what is left of them after some letters are taken away.

Two texts that some edits turn into each other have a common rest: taking at most so many letters
from each leaves the same text. So rests find all pairs of similar values, and few others.
"""

import numpy as np

from smered.kernels.candidates import STEP, mix
from smered.kernels.jit import entry, jit_inline

__all__ = ["count_pairs", "hash_rests", "list_pairs"]


@jit_inline
def next_subset(taken, count, length):
    """Move to the next `count` positions below `length` in taken[:count]; False after the last."""
    i = count - 1
    while i >= 0 and taken[i] == length - count + i:
        i -= 1
    if i < 0:
        return False
    taken[i] += 1
    for j in range(i + 1, count):
        taken[j] = taken[j - 1] + 1
    return True


@jit_inline
def hash_rest(letters, first, length, salt, taken, count):
    """Hash a text without the letters at taken[:count]."""
    word = mix(salt + STEP)
    at = 0
    for i in range(length):
        if at < count and taken[at] == i:
            at += 1
        else:
            word = mix(word + STEP * np.uint64(letters[first + i] + np.uint32(1)))
    return word


@entry
def hash_rests(letters, start, most, salt, part, parts, taken, keys, owner):
    """Hash the rests of every text that belong to one part of all hashes; return their number.

    letters: code points of all texts, text i at start[i] : start[i + 1]; most (n,) letters to take
    away; salt (n,) uint64, so that only texts of the same salt share a rest; taken: room for the
    positions taken. Writes keys (uint64) and owner (int32).
    """
    found = 0
    for text in range(start.shape[0] - 1):
        first = start[text]
        length = start[text + 1] - first
        for count in range(min(most[text], length) + 1):
            for i in range(count):
                taken[i] = i
            more = True
            while more:
                key = hash_rest(letters, first, length, salt[text], taken, count)
                if key % parts == part:
                    keys[found] = key
                    owner[found] = text
                    found += 1
                more = next_subset(taken, count, length)
    return found


@entry
def count_pairs(keys):
    """The number of pairs of equal keys; keys are sorted."""
    pairs, begin = 0, 0
    for end in range(1, keys.shape[0] + 1):
        if end == keys.shape[0] or keys[end] != keys[begin]:
            pairs += (end - begin) * (end - begin - 1) // 2
            begin = end
    return pairs


@entry
def list_pairs(keys, owner, texts, pairs):
    """Write every pair of different owners of equal keys as one * texts + two, one < two.

    keys are sorted, owner (int32) stands beside them. Returns the number of pairs written.
    """
    found, begin = 0, 0
    for end in range(1, keys.shape[0] + 1):
        if end == keys.shape[0] or keys[end] != keys[begin]:
            for i in range(begin, end):
                for j in range(begin, i):
                    one, two = min(owner[i], owner[j]), max(owner[i], owner[j])
                    if one < two:
                        pairs[found] = np.int64(one) * texts + two
                        found += 1
            begin = end
    return found
