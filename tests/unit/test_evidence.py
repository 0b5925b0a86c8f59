"""Field-by-field evidence against the model written down plainly."""

import math

import numpy as np
import pytest

from smered.posterior.evidence import NO_CHANGE, FieldDraw, Shown, field_evidence
from tests.exact.cases import CLOSENESS, fixed_change, fixed_parameters, tiny_model
from tests.exact.reference import channel, log_likelihood
from tests.exact.test_counts import explicit

SETS = [(0, 1), (0, 2), (0, 3), (3, 4), (0, 1, 2), (0, 1, 2, 3, 4), (4,), (2, 4)]


def field_draws(model, theta, beta):
    change = fixed_change(model)
    return [
        FieldDraw(theta[i], beta[:, i], CLOSENESS if close else 0.0,
                  change[:, i] if model.changing[i] else NO_CHANGE)
        for i, close in enumerate(model.close)
    ]  # fmt: skip


@pytest.mark.parametrize(
    "settings",
    [{}, {"distortion": "file"}, {"exact": True}, {"near": "text"}, {"near": "text-that-may-equal"},
     {"near": "date", "distortion": "file"}, {"changing": True}, {"changing": True, "near": "text"},
     {"joint": "near"}, {"joint": "slips", "changing": True}],
    ids=["field", "file", "exact", "text", "text-that-may-equal", "date-by-file",
         "changing", "changing-text", "joint-near", "joint-slips-changing"],
)  # fmt: skip
def test_evidence_adds_up_to_the_ratio_of_likelihoods(settings):
    model = tiny_model(**settings)
    theta, beta = fixed_parameters(model)
    owner = np.repeat(np.arange(len(SETS)), [len(s) for s in SETS])
    record = np.array([r for s in SETS for r in s])
    found = field_evidence(owner, record, len(SETS), model, field_draws(model, theta, beta))
    alone = log_likelihood((0, 1, 2, 3, 4), model, theta, beta)
    for chosen, evidence in zip(SETS, found, strict=True):
        labels = tuple(min(chosen) if r in chosen else r for r in range(5))
        expected = log_likelihood(labels, model, theta, beta) - alone
        assert evidence.sum() == pytest.approx(expected, abs=1e-9)


def test_a_field_speaks_for_itself():
    model = tiny_model()
    theta, beta = fixed_parameters(model)
    pair = np.zeros(2, np.int64)
    both = field_evidence(pair, np.array([0, 2]), 1, model, field_draws(model, theta, beta))[0]
    assert (both > 0).all()  # they agree in both fields
    apart = field_evidence(pair, np.array([1, 3]), 1, model, field_draws(model, theta, beta))[0]
    assert (apart < 0).all()  # they differ in both
    missing = field_evidence(pair, np.array([0, 4]), 1, model, field_draws(model, theta, beta))[0]
    assert missing[0] == pytest.approx(0.0, abs=1e-12)


def test_a_contradiction_is_endless():
    model = tiny_model(exact=True, blocks=2)
    theta, beta = fixed_parameters(model)
    found = field_evidence(
        np.zeros(2, np.int64), np.array([0, 5]), 1, model, field_draws(model, theta, beta)
    )
    assert found[0, 2] == -math.inf
    assert np.isfinite(found[0, :2]).all()


@pytest.mark.parametrize("near", [None, "text", "text-that-may-equal"])
@pytest.mark.parametrize("labels", [(0, 0, 0, 0, 0), (0, 0, 0, 3, 3), (0, 1, 2, 3, 4)])
def test_distortion_given_a_linkage_is_that_of_all_true_values_and_distortions(labels, near):
    model = tiny_model(near=near)
    theta, beta = fixed_parameters(model)
    draws = field_draws(model, theta, beta)
    entity = np.array(labels)
    for column in range(2):
        shown = Shown.of(entity, np.arange(5), column, model)
        found = dict(zip(shown.record.tolist(), shown.distorted(draws[column]), strict=True))
        codes = model.coded[column].codes
        for name in set(labels):
            members = [r for r in range(5) if labels[r] == name and codes[r] >= 0]
            if not members:
                continue
            psi = channel(model.coded[column], theta[column], CLOSENESS)
            every = explicit(codes[members], theta[column], beta[0, column], psi)
            for place, record in enumerate(members):
                expected = sum(p for (_, z), p in every.items() if z[place])
                assert found[record] == pytest.approx(expected, abs=1e-12)
