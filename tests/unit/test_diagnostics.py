"""Diagnostics against ArviZ, which implements the same paper."""

import arviz
import numpy as np
import pytest

from smered.diagnostics import ess, ess_bulk, ess_tail, mcse, rhat, split


def chains(kind):
    rng = np.random.default_rng(5)
    noise = rng.normal(size=(4, 400))
    if kind == "autocorrelated":
        for i in range(1, 400):
            noise[:, i] += 0.8 * noise[:, i - 1]
    if kind == "disagreeing":
        noise += np.arange(4)[:, None]
    if kind == "counts":
        noise = np.round(noise * 2)
    if kind == "odd":
        noise = noise[:, :399]
    if kind == "one":
        noise = noise[:1]
    if kind == "antithetic":
        noise[:, 1::2] = -noise[:, ::2] + 0.01 * noise[:, 1::2]
    return noise


@pytest.mark.parametrize(
    "kind", ["white", "autocorrelated", "disagreeing", "counts", "odd", "one", "antithetic"]
)
def test_same_as_arviz(kind):
    draws = chains(kind)
    assert ess_bulk(draws) == pytest.approx(float(arviz.ess(draws, method="bulk")), rel=1e-6)
    assert ess_tail(draws) == pytest.approx(float(arviz.ess(draws, method="tail")), rel=1e-6)
    assert ess(split(draws)) == pytest.approx(float(arviz.ess(draws, method="mean")), rel=1e-6)
    assert mcse(draws) == pytest.approx(
        np.asarray(arviz.mcse(draws, method="mean")).item(), rel=1e-6
    )
    if kind != "one":
        assert rhat(draws) == pytest.approx(float(arviz.rhat(draws)), rel=1e-6)


def test_constant_draws():
    draws = np.full((2, 50), 7.0)
    assert rhat(draws) == 1.0
    assert ess_bulk(draws) == 100.0
