"""One linkage to report: the paper's, or the one with the least expected loss."""

import hashlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow as pa

from smered.errors import ConfigError
from smered.layout import Bools, Floats, Int64s
from smered.posterior.sets import MatchingSets, group_starts
from smered.records import Records

__all__ = ["Estimate", "Loss", "estimated_sets", "expected_loss", "make_estimate", "size_pairs"]

Loss = Literal["mpmms", "binder", "vi", "f1"]
MOST_SWEEPS = 50  # of the search for the least expected loss; it ends when nothing improves


@dataclass(frozen=True)
class Estimate:
    """A transitive linkage: every record in exactly one entity."""

    entity: Int64s  # (n,) number of each record's entity
    probability: Floats  # (N,) posterior probability that exactly these records are one entity
    entity_id: tuple[str, ...]  # (N,) the same for the same records in every run
    loss: Loss = "mpmms"

    def __len__(self) -> int:
        return len(self.probability)

    @property
    def sizes(self) -> Int64s:
        """Records of each entity (N,)."""
        return np.bincount(self.entity)

    def table(self, records: Records) -> pa.Table:
        """One row per record: file, id, entity_id, probability of its cluster, its size."""
        return pa.table(
            {
                "file": pa.array(records.files).take(pa.array(records.file)),
                "id": records.ids,
                "entity_id": pa.array(self.entity_id).take(pa.array(self.entity)),
                "probability": self.probability[self.entity],
                "size": self.sizes[self.entity],
            }
        )


def make_estimate(
    sets: MatchingSets, draws: int, records: Records, loss: Loss, linkages: Sequence[Int64s] = ()
) -> Estimate:
    """Choose the linkage to report.

    mpmms: records are linked exactly if they are in the same shared most probable matching set;
    records in none stay single (the paper's estimate). binder, vi: the linkage with the least
    expected Binder or variation-of-information loss that a local search finds from the mpmms
    estimate, from the pairs that are linked more often than not, and from the best of some
    `linkages`. f1: the linkage with the largest expected F1 of pairs, found likewise.
    """

    def expected(labels: Int64s) -> float:
        return expected_loss(labels, sets, draws, loss)

    if loss == "mpmms":
        labels = shared_labels(sets)
    elif loss in ("binder", "vi"):
        starts = [shared_labels(sets), majority_labels(sets, draws)]
        starts += [min(linkages, key=expected)] if linkages else []
        labels = min((improve(start, sets, draws, loss) for start in starts), key=expected)
    elif loss == "f1":
        labels = most_f1(sets, draws)
    else:
        raise ConfigError(f"loss = {loss!r} must be 'mpmms', 'binder', 'vi' or 'f1'")
    first = np.unique(labels, return_index=True)[1]
    rank = np.empty(len(first), np.int64)
    rank[np.argsort(first)] = np.arange(len(first))  # entities in order of their first record
    entity = rank[np.unique(labels, return_inverse=True)[1]]
    probability = cluster_probability(entity, sets, draws)
    return Estimate(entity, probability, entity_ids(entity, records), loss)


def shared_labels(sets: MatchingSets) -> Int64s:
    """Link the records of each shared most probable matching set."""
    labels = np.arange(sets.sets.records)
    shared = sets.sets.select(sets.shared())
    labels[shared.member] = np.repeat(shared.member[shared.start[:-1]], shared.size)
    return labels


def majority_labels(sets: MatchingSets, draws: int) -> Int64s:
    """Link records that a chain of pairs, each linked in more than half of the draws, connects."""
    one, two, together = sets.pairs
    likely = 2 * together > draws
    label = list(range(sets.sets.records))

    def root(record: int) -> int:
        while label[record] != record:
            label[record] = label[label[record]]
            record = label[record]
        return record

    for a, b in zip(one[likely].tolist(), two[likely].tolist(), strict=True):
        low, high = sorted((root(a), root(b)))
        label[high] = low
    return np.array([root(record) for record in range(len(label))])


def most_f1(sets: MatchingSets, draws: int) -> Int64s:
    """The linkage with the largest expected F1 that is found.

    F1 is a ratio, 2 c / (a + b) of links in common and links of either. The linkage that makes it
    most also makes 2 c - F (a + b) most, where F is its F1 (Dinkelbach): a Binder loss in which a
    link costs F in place of 1. So a pair is worth linking from a probability of F / 2 on.
    """
    best = max(
        (shared_labels(sets), majority_labels(sets, draws)),
        key=lambda labels: expected_f1(labels, sets, draws),
    )
    reached = expected_f1(best, sets, draws)
    for _ in range(MOST_SWEEPS):
        labels = improve(best, sets, draws, "binder", price=reached)
        found = expected_f1(labels, sets, draws)
        if found <= reached + 1e-12:
            break
        best, reached = labels, found
    return best


def entropy_term(size: float) -> float:
    """The convex function x log x of the variation of information."""
    return size * math.log(size) if size > 0 else 0.0


# Adding a record to a cluster of s others costs STEP[loss](s), less twice the mean over draws of
# STEP[loss](how many of those s share the record's cluster in the draw).
STEP: dict[str, Callable[[int], float]] = {
    "binder": float,
    "vi": lambda s: entropy_term(s + 1) - entropy_term(s),
}


def improve(
    labels: Int64s, sets: MatchingSets, draws: int, loss: Loss, price: float = 1.0
) -> Int64s:
    """Move one record at a time to where the expected loss is least, until none moves.

    `price` is what a link costs, where one that is right is worth 2.
    """
    step = STEP[loss]
    label = labels.tolist()
    size: dict[int, int] = {}
    for name in label:
        size[name] = size.get(name, 0) + 1
    holding, start = group_starts(sets.sets.member, sets.sets.owner, sets.sets.records)
    fresh = len(label)  # names for records that move out on their own
    certain = sets.draws == draws
    uncertain = [r for r in range(len(label)) if not certain[holding[start[r]]]]
    members = {int(s): sets.sets.member_list(int(s)) for r in uncertain
               for s in holding[start[r] : start[r + 1]]}  # fmt: skip
    weight = (sets.draws / draws).tolist()
    for _ in range(MOST_SWEEPS):
        moved = False
        for record in uncertain:
            own = label[record]
            size[own] -= 1
            gain: dict[int, float] = {own: 0.0}
            for s in holding[start[record] : start[record + 1]].tolist():
                together: dict[int, int] = {}
                for other in members[s]:
                    if other != record:
                        together[label[other]] = together.get(label[other], 0) + 1
                for name, count in together.items():
                    gain[name] = gain.get(name, 0.0) + weight[s] * step(count)
            costs = {
                name: price * step(size[name]) - 2 * value
                for name, value in gain.items()
                if size[name]
            }
            best = min(costs, key=lambda name: (costs[name], name), default=own)
            stay = costs.get(own, 0.0)
            if min(costs.get(best, 0.0), 0.0) < stay - 1e-12:
                if costs.get(best, 0.0) < 0.0:
                    label[record] = best
                else:
                    label[record] = fresh
                    size[fresh] = 0
                    fresh += 1
                moved = True
            size[label[record]] += 1
        if not moved:
            break
    return np.array(label)


def expected_loss(labels: Int64s, sets: MatchingSets, draws: int, loss: Loss) -> float:
    """Posterior expectation of the Binder loss (in pairs) or of the variation of information.

    Binder counts pairs that one linkage has and the other has not. VI is in nats, over n records.
    """
    if loss == "binder":
        either, common = shared_terms(labels, sets, draws, size_pairs)
        return either - 2 * common
    either, common = shared_terms(labels, sets, draws, size_entropy)
    return (either - 2 * common) / len(labels)


def size_pairs(size: Int64s) -> Floats:
    """Pairs within clusters of these sizes."""
    return 0.5 * (size * (size - 1)).astype(np.float64)


def size_entropy(size: Int64s) -> Floats:
    """The term of the variation of information for clusters of these sizes."""
    terms = size.astype(np.float64)
    return terms * np.log(terms)


def expected_f1(labels: Int64s, sets: MatchingSets, draws: int) -> float:
    """Twice the expected links in common, over the links of the estimate and those expected."""
    either, common = shared_terms(labels, sets, draws, size_pairs)
    return 2 * common / either if either else 1.0


def shared_terms(
    labels: Int64s, sets: MatchingSets, draws: int, term: Callable[[Int64s], Floats]
) -> tuple[float, float]:
    """Sums of a function of sizes: of clusters, estimated and drawn, and of what they share."""
    number = np.unique(labels, return_inverse=True)[1]
    own = np.bincount(number)
    # members of each set by estimated cluster
    key = sets.sets.owner * len(own) + number[sets.sets.member]
    parts, both = np.unique(key, return_counts=True)
    part_draws = sets.draws[parts // len(own)]
    either = term(own).sum() + (sets.draws @ term(sets.sets.size)) / draws
    return float(either), float((part_draws @ term(both)) / draws)


def cluster_probability(entity: Int64s, sets: MatchingSets, draws: int) -> Floats:
    """Share of draws in which exactly the records of each estimated cluster are one entity."""
    probability = np.zeros(int(entity.max()) + 1)
    whole = np.flatnonzero(estimated_sets(entity, sets))
    first = sets.sets.member[sets.sets.start[whole]]
    probability[entity[first]] = sets.draws[whole] / draws
    return probability


def estimated_sets(entity: Int64s, sets: MatchingSets) -> Bools:
    """Which matching sets are exactly a cluster of the estimate (S,)."""
    inside, start = entity[sets.sets.member], sets.sets.start[:-1]
    same = np.logical_and.reduceat(inside == np.repeat(inside[start], sets.sets.size), start)
    whole: Bools = same & (sets.sets.size == np.bincount(entity)[inside[start]])
    return whole


def entity_ids(entity: Int64s, records: Records) -> tuple[str, ...]:
    """Names made from the files and ids of the members: the same cluster, the same name."""
    ids = records.ids.to_pylist()
    names: list[list[str]] = [[] for _ in range(int(entity.max()) + 1)]
    for record, number in enumerate(entity.tolist()):
        names[number].append(f"{records.files[records.file[record]]}\x1f{ids[record]}")
    return tuple(
        "E" + hashlib.sha256("\x1e".join(sorted(members)).encode()).hexdigest()[:16]
        for members in names
    )
