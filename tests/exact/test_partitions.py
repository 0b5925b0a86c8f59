"""Rung 2: the chain visits every legal partition as often as enumeration says it should."""

import pytest

from smered import parts
from smered.pairs import InformedPairs, UniformPairs
from smered.priors import ClusterSizes, Ewens, PitmanYor, UniformLabels, UniformPartitions
from tests.exact.cases import (
    NEAR,
    HandPicked,
    fixed_parameters,
    run_fixed,
    tiny_model,
    total_variation,
)
from tests.exact.reference import exact_posterior

SWEEPS = 15_000
BOUND = 0.03  # total variation; correct kernels stay below 0.02, every mutant is above 0.05

PRIORS = [UniformLabels(), UniformPartitions(), Ewens(2.0), PitmanYor(1.5, 0.3), ClusterSizes()]
VARIANTS = {
    "plain": {},
    "two-blocks": {"blocks": 2},
    "no-duplicates": {"duplicates": False},
    "no-duplicates-two-blocks": {"duplicates": False, "blocks": 2},
    "one-file-without-duplicates": {"duplicates": {"A": False}, "blocks": 2},
    "exact-field": {"exact": True},
    "changing": {"changing": True},
    "changing-text-by-file": {"changing": True, "near": "text", "distortion": "file"},
    "joint-near-with-gaps": {"joint": "near"},
    "joint-with-gaps-changing": {"joint": "alike", "changing": True},
    "rates-by-file": {"distortion": "file"},
    **{kind: {"near": kind} for kind in NEAR},
    "text-rates-by-file": {"near": "text", "distortion": "file"},
    "classes": {"classes": 3},
    "classes-text-exact": {"classes": 2, "near": "text", "exact": True},
}
SMOKE = {"plain", "two-blocks", "no-duplicates", "text", "classes", "changing"}
SMOKE |= {"no-duplicates-two-blocks", "joint-near-with-gaps"}
# Lists that leave some records out, so that the chances of a transfer and of its reverse differ.
INFORMED = {name: InformedPairs(candidates=2 if "duplicates" in name else 3, uniform_share=0.3)
            for name in VARIANTS}  # fmt: skip


def case(prior, name, settings, pairs):
    kind = type(prior).__name__
    if kind == "ClusterSizes":
        kind += "" if prior.files else "Conditioned"
        kind += "" if prior.blocks else "InAllBlocks"
    label = f"{kind}-{name}-{type(pairs).__name__}"
    marks = [pytest.mark.smoke] if name in SMOKE and isinstance(pairs, InformedPairs) else []
    return pytest.param(prior, settings, pairs, id=label, marks=marks)


CASES = [
    case(prior, name, settings, pairs)
    for prior in (*PRIORS, ClusterSizes(files=False), ClusterSizes(blocks=False))
    for name, settings in VARIANTS.items()
    for pairs in (INFORMED[name], UniformPairs())
    if isinstance(prior, UniformLabels | PitmanYor)
    or (name in SMOKE and prior not in (ClusterSizes(files=False), ClusterSizes(blocks=False)))
    or (
        isinstance(prior, ClusterSizes)
        and isinstance(pairs, InformedPairs)
        and ("duplicates" in name or "blocks" in name)
    )
]


@pytest.mark.smoke
@pytest.mark.parametrize("duplicates", [True, False, {"A": False}])
def test_transfers_with_uneven_candidate_lists(duplicates):
    """Records 0 and 1 are of file A, 2 and 3 of B, 4 of C."""
    lists = [[2, 3, 4], [2], [0, 4], [1], [0, 1, 2]]
    model = tiny_model(duplicates=duplicates, pairs=HandPicked(lists))
    theta, beta = fixed_parameters(model)
    found = run_fixed(model, theta, beta, SWEEPS)
    assert total_variation(found, exact_posterior(model, theta, beta)) < BOUND


@pytest.mark.parametrize(("prior", "settings", "pairs"), CASES)
def test_frequencies_match_enumeration(prior, settings, pairs):
    model = tiny_model(prior=prior, pairs=pairs, **settings)
    theta, beta = fixed_parameters(model)
    found = run_fixed(model, theta, beta, SWEEPS)
    assert total_variation(found, exact_posterior(model, theta, beta)) < BOUND


@pytest.mark.smoke
def test_labels_shared_out_over_groups(monkeypatch):
    """As for many records: labels go to a group of blocks first, then to a block of it."""
    monkeypatch.setattr(parts, "RECORDS_PER_PART", 3)
    model = tiny_model(prior=UniformLabels(), blocks=2)
    theta, beta = fixed_parameters(model)
    found = run_fixed(model, theta, beta, SWEEPS)
    assert total_variation(found, exact_posterior(model, theta, beta)) < BOUND


@pytest.mark.parametrize("prior", PRIORS, ids=lambda prior: type(prior).__name__)
def test_two_threads(prior):
    model = tiny_model(prior=prior, blocks=2)
    theta, beta = fixed_parameters(model)
    serial = run_fixed(model, theta, beta, 4000, threads=1)
    assert run_fixed(model, theta, beta, 4000, threads=2) == serial


def test_large_clusters_are_weighed_the_same_in_logs():
    model = tiny_model(prior=UniformLabels())
    theta, beta = fixed_parameters(model)
    found = run_fixed(model, theta, beta, SWEEPS, in_logs=True)
    assert total_variation(found, exact_posterior(model, theta, beta)) < BOUND
