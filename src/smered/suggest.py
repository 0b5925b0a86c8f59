"""Which name was probably meant."""

import difflib
from collections.abc import Sequence

__all__ = ["closest", "suggest"]


def closest(name: str, choices: Sequence[str]) -> str | None:
    """The choice that looks most like a name, if one does."""
    return next(iter(difflib.get_close_matches(name, choices, n=1, cutoff=0.5)), None)


def suggest(name: str, choices: Sequence[str]) -> str:
    """Say which choice was probably meant, or list them all.

    >>> suggest("sexx", ["sex", "town"])
    "did you mean 'sex'?"
    """
    meant = closest(name, choices)
    return f"did you mean {meant!r}?" if meant else "there are: " + ", ".join(map(repr, choices))
