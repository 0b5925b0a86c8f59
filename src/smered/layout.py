"""The flat arrays that a sweep reads and writes, as named tuples that kernels take directly.

Sizes: n records, p fields, T levels of all fields together, k files, B blocks, G cells (a block's
records of one file), R rows of distortion rates (1, or k when rates differ by file), C latent
classes (1 if there are none). Records stand in kernel order: by block, then by file, so that a
block's data sit together.
"""

from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = ["Bools", "Clusters", "Floats", "Int32s", "Int64s", "Layout", "Parameters"]
__all__ += ["BlockPrior", "LinkagePrior", "Scratch", "Statistics", "Toggles", "Uint8s", "Uint32s"]

Bools: TypeAlias = NDArray[np.bool_]
Floats: TypeAlias = NDArray[np.float64]
Int32s: TypeAlias = NDArray[np.int32]
Int64s: TypeAlias = NDArray[np.int64]
Uint8s: TypeAlias = NDArray[np.uint8]
Uint32s: TypeAlias = NDArray[np.uint32]

# Typed, so that kernels are not compiled once more for each constant they are called with.
ZERO, UNIT = np.int64(0), np.int64(1)
UNLIMITED = -1  # free labels of a prior that does not count them
TOP_GRADE = 255  # of a candidate: its weight
COIN_SIDES = 2048  # Layout.uniform_share is a share of this
UNITS, LOW_UNITS = 65536.0, 4294967296.0  # of sums in whole numbers; see `smered.sums`
MOST_AGREED = 8  # values of a cluster that agree are counted together up to this number


class Layout(NamedTuple):
    """What never changes during a run: the coded records and which pairs are proposed."""

    values: Int32s  # (n, p) position in the flat level tables, -1 where missing
    field_start: Int64s  # (p + 1,) first level of each field in the flat tables
    exact: Bools  # (p,) fields that are never distorted (b = infinity)
    given: Bools  # (p,) exact fields that the block tells already: agreeing tells nothing
    near: Bools  # (p,) fields whose distorted values fall near the true one
    near_start: Int64s  # (T + 1,) first neighbour of each level of those fields
    near_level: Int32s
    near_kernel: Floats  # kappa of each neighbour; see smered.near
    near_copies: Bools  # of each neighbour: whether it may be copied, in fields of sets
    sets: Bools  # (p,) fields some of whose levels stand for sets of values
    near_itself: Floats  # (T,) kappa of a level and itself
    near_twice: Floats  # (T,) sum of phi kappa**2 over a level's neighbours
    block_start: Int64s  # (B + 1,) first record of each block
    block_name: Int64s  # (B,) what names a block's random numbers
    place: Int32s  # (n,) place of a record in its block, which names its random numbers
    cell: Int32s  # (n,) cell of each record
    cell_start: Int64s  # (G + 1,) first record of each cell
    cell_file: Int32s  # (G,) file of each cell
    single: Bools  # (k,) files that hold no two records of one entity
    kind_step: Int64s  # (k,) what a record of each file adds to the kind of its cluster
    kind_bits: int  # of a kind that each file's records take; 0 where kinds are sizes
    changing: Bools  # (p,) fields whose true value changes over time
    time: Int64s  # (k,) when each file stands in the order of time
    rate_row: Int32s  # (k,) row of each file in the table of distortion rates
    candidate_start: Int64s  # (n + 1,) where each record's candidates begin
    candidates: Int32s  # records worth proposing with a record
    grade: Uint8s  # of each candidate: how often it is proposed, relative to others
    cut: Uint32s  # (n,) alias table of the choice of a record within its block
    alias: Int32s  # (n,)
    proposals: Floats  # (B,) expected proposals per sweep
    uniform_share: int  # of COIN_SIDES, how often a pair is uniform rather than informed


class Parameters(NamedTuple):
    """Level probabilities and distortion rates of one sweep, ready for look-up."""

    theta: Floats  # (T,)
    inverse_theta: Floats  # (T,) 1 / theta
    cumulative: Floats  # (T,) running sums of theta within each field
    odds: Floats  # (R, p) (1 - beta) / beta; 0 for exact fields, which do not use it
    agree: Floats  # (T,) weight of two records that agree at a level, rates not by file
    differ: Floats  # (p,) weight of two records that differ
    agree_thrice: Floats  # (T,) weight of three records that agree at a level
    rate: Floats  # (p,) distortion rate, rates not by file
    closeness: Floats  # (p,) share of slips among distorted values, 0 where values agree or differ
    class_weight: Floats  # (C,) share of each latent class; one class if there are none
    class_theta: Floats  # (T, C) probability of a true value in a class, or (1, 1)
    kept: Floats  # (k, k, p) probability that a value did not change between two times
    small: int  # clusters up to this size are weighed by products, larger ones in logs


class LinkagePrior(NamedTuple):
    """The prior on the linkage of all records, given what makes blocks independent (equation 8)."""

    log_unit: float  # log weight of one more cluster
    free: int  # labels that all blocks together may still use, or UNLIMITED
    hyperparameters: Floats  # those that log W of a kind depends on
    base: Floats  # (K,) of the shares that each block draws, or empty
    log_share: Floats  # (K,) log of the shares of kinds in all blocks, or empty


class BlockPrior(NamedTuple):
    """The same, shared out over blocks or over parts (see `smered.labels`), which are now alone."""

    log_unit: Floats  # (B,) log weight of one more cluster in a block
    free: Int64s  # (B,) labels the block may still use, or UNLIMITED
    log_kind: Floats  # (1, sizes) log W of a size, or (k, numbers) of so many records of a file
    log_share: Floats  # (B, K) log of the share of a kind, (1, K) in all blocks, or (1, 1) zero
    base: Floats  # (K,) of shares that stay summed out in proposals, or empty


class Clusters(NamedTuple):
    """The linkage: a cluster is named by its first record; its members form a ring."""

    entity: Int32s  # (n,) first record of each record's cluster: the state of the chain
    following: Int32s  # (n,) next record in the ring
    size: Int32s  # (n,) at a cluster's first record: its number of records
    kind: Int64s  # (n,) at a cluster's first record: its kind, the sum of its records' steps
    log_weight: Floats  # (n,) at a cluster's first record: log of its weight (equation 4)


class Toggles(NamedTuple):
    """Records that may be alone or with an anchor, all of which differ from it in one field."""

    block_start: Int64s  # (B + 1,) first pair of each block
    mover: Int32s  # (m,)
    anchor: Int32s  # (m,)
    shown: Int32s  # (m,) values of the host in the field; 0 if the pair is not taken now
    level: Int32s  # (m,) the level that they show
    together: Bools  # (m,) whether the mover is with the host
    log_gain: Floats  # (m,) log ratio of together and apart, the prior's V[N] left out
    wanted: Bools  # (m,) whether the mover shall be with the host


class Scratch(NamedTuple):
    """Room for one thread to work in, so that nothing is allocated during a sweep."""

    members: Int32s  # (largest cluster,)
    seen: Int32s  # (largest cluster or field,) distinct levels of the cluster being weighed
    tally: Floats  # (T,) zero between uses
    classes: Floats  # (C,) weights of the latent classes of the cluster being weighed
    mark: Int64s  # (k,) stamp of the last merge that met a file
    stamp: Int64s  # (1,)
    ordered: Int32s  # (largest cluster,) a cluster's records in the order of time
    edge: Int64s  # (k + 1,) where the records of each time begin
    reach: Floats  # (k + 1,) log weight of the records of the first times
    cut: Bools  # (k + 1,) times at which the true value is another
    kinds: Int64s  # (K + 1,) clusters of a block by kind, and all of them


class Statistics(NamedTuple):
    """What a sweep leaves behind; integers, so that their sum does not depend on the order."""

    level_counts: Int64s  # (T,) true values, distorted values, and values alone in a cluster
    distorted: Int64s  # (R, p) distorted values among the telling ones
    telling: Int64s  # (R, p) values that are not the only ones of their cluster and field
    slips: Int64s  # (R, p) distorted values that fell near the true one
    agreed: Int64s  # (MOST_AGREED + 1, T) clusters by how many values they show, all of one level
    changed: Int64s  # (k - 1, p) values that changed from one time to the next
    exposed: Int64s  # (k - 1, p) values that might have
    class_counts: Int64s  # (C,) entities in each latent class
    class_levels: Int64s  # (T, C) true values in each latent class, or (1, 1)
    moves: Int64s  # (6,) merges, splits and transfers: proposed and accepted, in turn
    entities: Int64s  # (1,)
    log_weight: Int64s  # (2,) sum of the log weights of clusters; see `smered.sums`
