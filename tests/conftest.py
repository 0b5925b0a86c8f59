"""What holds for all tests."""

import os

import pytest
from hypothesis import settings

from smered import model

settings.register_profile("any machine", deadline=None)  # the first example also imports
settings.load_profile("any machine")


@pytest.fixture(autouse=True)
def few_proposals_where_nothing_is_compiled(monkeypatch):
    """Plain kernels are a thousand times slower: there a sweep makes few proposals."""
    if os.environ.get("NUMBA_DISABLE_JIT") == "1":
        monkeypatch.setattr(model, "LEAST_PROPOSALS", 1)
