"""A counter-based generator: Philox4x32-10 (Salmon, Moraes, Dror, Shaw 2011).

Every random number is a pure function of (seed, chain, sweep, block, purpose, index). There is no
state to carry, so a block gives the same numbers on any thread, in any order and after a resume.
"""

import math

import numpy as np

from smered.kernels.jit import jit_inline

__all__ = [
    "CHANGE",
    "CHOOSE",
    "CLASS",
    "DISTORT",
    "EXTRA",
    "POOL",
    "PROPOSE",
    "ROTATE",
    "ROTATE_EXTRA",
    "SETTLE",
    "SHARE",
    "SPLIT",
    "TOGGLE",
]
__all__ += ["LEAST_LOG_UNIFORM", "TRUE", "accepted", "another", "below", "high", "low"]
__all__ += ["stream", "uniform", "words"]

# What a stream is for. Streams of different purpose never share a number.
PROPOSE, SPLIT, TRUE, EXTRA, DISTORT, CHOOSE, TOGGLE = map(np.int64, range(7))
ROTATE, ROTATE_EXTRA, CLASS, SETTLE, SHARE, POOL, CHANGE = map(np.int64, range(7, 14))
PURPOSES = 16

MASK = np.uint64(0xFFFFFFFF)
HALF = np.uint64(32)
MULTIPLIER_0 = np.uint64(0xD2511F53)
MULTIPLIER_1 = np.uint64(0xCD9E8D57)
WEYL_0 = np.uint64(0x9E3779B9)
WEYL_1 = np.uint64(0xBB67AE85)
ELEVEN = np.uint64(11)
LEAST_LOG_UNIFORM = -37.0  # below the logarithm of the smallest positive uniform, 2**-53


@jit_inline
def stream(seed, chain, sweep, block, purpose):
    """Name a stream of random words: (key low, key high, block, sweep, chain and purpose)."""
    key = np.uint64(seed)
    return (
        key & MASK,
        key >> HALF,
        np.uint64(block) & MASK,
        np.uint64(sweep) & MASK,
        np.uint64(chain * PURPOSES + purpose) & MASK,
    )


@jit_inline
def another(stream, number):
    """The stream of the same name with a number (below 2**16), for chains below 2**12."""
    k0, k1, c1, c2, c3 = stream
    return k0, k1, c1, c2, c3 ^ (np.uint64(number) << np.uint64(16))


@jit_inline
def words(stream, index):
    """Return the two 64-bit words that stand at `index` (below 2**32) of a stream."""
    k0, k1, c1, c2, c3 = stream
    c0 = np.uint64(index) & MASK
    for _ in range(10):
        product_0 = MULTIPLIER_0 * c0
        product_1 = MULTIPLIER_1 * c2
        c0 = (product_1 >> HALF) ^ c1 ^ k0
        c1 = product_1 & MASK
        c2 = (product_0 >> HALF) ^ c3 ^ k1
        c3 = product_0 & MASK
        k0 = (k0 + WEYL_0) & MASK
        k1 = (k1 + WEYL_1) & MASK
    return (c1 << HALF) | c0, (c3 << HALF) | c2


@jit_inline
def uniform(word):
    """Turn the upper 53 bits of a word into a number in [0, 1)."""
    return np.float64(word >> ELEVEN) * (1.0 / 9007199254740992.0)


@jit_inline
def low(word):
    """The lower 32 bits of a word."""
    return word & MASK


@jit_inline
def high(word):
    """The upper 32 bits of a word."""
    return word >> HALF


@jit_inline
def below(half, bound):
    """Turn 32 random bits into an integer in [0, bound).

    Its relative bias is below bound / 2**32. It only ever chooses which pair is proposed: splits
    and merges are exact under any choice. A transfer that is undone by another record assumes that
    both are chosen by their weights, which holds to a relative error of the block's size / 2**32.
    """
    return np.int64((half * np.uint64(bound)) >> HALF)


@jit_inline
def accepted(log_ratio, word):
    """The Metropolis decision, without a logarithm where it cannot matter."""
    if log_ratio >= 0.0:
        return True
    if log_ratio < LEAST_LOG_UNIFORM:
        return False
    return math.log(1.0 - uniform(word)) < log_ratio
