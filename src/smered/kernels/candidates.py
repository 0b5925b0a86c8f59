"""Candidate lists by hashing: records that agree on a subset of the fields find each other."""

import numpy as np

from smered.kernels.jit import entry, jit_inline

__all__ = ["add_candidates", "hash_rows"]

MIX_0 = np.uint64(0xBF58476D1CE4E5B9)
MIX_1 = np.uint64(0x94D049BB133111EB)
STEP = np.uint64(0x9E3779B97F4A7C15)


@jit_inline
def mix(word):
    """Scramble 64 bits (the finaliser of splitmix64)."""
    word = (word ^ (word >> np.uint64(30))) * MIX_0
    word = (word ^ (word >> np.uint64(27))) * MIX_1
    return word ^ (word >> np.uint64(31))


@entry
def hash_rows(values, kept, block, whole, keys):
    """Write to keys (n,) a hash of each record's block and of its values in the kept fields.

    values (n, p) int32, kept (p,) bool, block (n,) int64. Equal rows have equal keys; different
    rows of a block that collide cost a wasted proposal, nothing more. If `whole`, records with a
    missing value there agree with none; else missing values agree with each other.
    """
    for record in range(values.shape[0]):
        word = mix(np.uint64(block[record]) + STEP)
        complete = True
        for field in range(values.shape[1]):
            if kept[field]:
                complete = complete and values[record, field] >= 0
                word = mix(word + STEP * np.uint64(values[record, field] + 2 + field))
        if whole and not complete:
            word = mix(word + STEP * np.uint64(record + 1))
        keys[record] = word


@jit_inline
def listed(record, partner, lists, counts):
    """Whether `partner` is already a candidate of `record`."""
    for i in range(counts[record]):
        if lists[record, i] == partner:
            return True
    return False


@entry
def add_candidates(order, keys, block, cell, cell_single, lists, counts):
    """Give each record more candidates among those with the same key, while its list has room.

    order (n,) int64 sorts keys (n,) uint64; block (n,) int64; lists (n, cap) int32, counts (n,)
    int32. A group too large to be listed whole is sampled by hashing, so that lists depend on the
    group alone.
    """
    records, cap = lists.shape
    begin = 0
    while begin < records:
        end = begin + 1
        while end < records and keys[order[end]] == keys[order[begin]]:
            end += 1
        group = end - begin
        whole = group <= 2 * cap
        for at in range(begin, end):
            record = order[at]
            for step in range(1, group if whole else 2 * cap):
                if counts[record] == cap:
                    break
                if whole:
                    other = begin + (at - begin + step) % group
                else:
                    word = mix(keys[record] + STEP * np.uint64((at - begin) * 64 + step))
                    other = begin + np.int64(word % np.uint64(group))
                partner = order[other]
                if block[partner] != block[record]:
                    continue  # keys of different blocks collided: never a candidate
                if partner == record or listed(record, partner, lists, counts):
                    continue
                if cell[partner] == cell[record] and cell_single[cell[record]]:
                    continue
                lists[record, counts[record]] = partner
                counts[record] += 1
        begin = end
