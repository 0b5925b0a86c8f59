"""A run folder to be damaged."""

import pytest

import smered
from tests.faults.test_interruptions import arguments


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    out = tmp_path_factory.mktemp("good") / "run"
    smered.link(**arguments(draws=25, burn_in=10), out=out)
    return out
