"""What a chain asks of the place where its sweeps run.

Every executor does the same work and gives the same bytes: what is returned depends on the state,
the parameters, the prior, the seed and the chain alone, and consists of sums of whole numbers.
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from smered.layout import Floats, Int32s, Int64s, LinkagePrior, Parameters, Statistics
from smered.priors.prior import KindCounts, Pooled
from smered.state import ChainState

__all__ = ["Executor", "FoundToggles"]


class FoundToggles(NamedTuple):
    """What a rate depends on besides its toggles, and how these stand."""

    agreed: Int64s  # (MOST_AGREED + 1, T) other clusters that agree, by values and level
    hosts: Int64s  # (MOST_AGREED + 1, levels of the field) hosts of toggles
    together: int  # toggles that are with their hosts
    others: Int64s  # (2, rates) log weights of all other clusters at each rate; see `smered.sums`


class Executor(Protocol):
    """Runs the sweeps of one chain. The linkage of its state may be held elsewhere."""

    @property
    def candidates(self) -> bool:
        """Whether there are pairs that are proposed more often than others."""
        ...

    @property
    def uniform_share(self) -> int:
        """Of COIN_SIDES, how often a pair is uniform."""
        ...

    def start(self, state: ChainState, seed: int, chain: int) -> None:
        """Link records for the first time."""
        ...

    def kinds(self, state: ChainState) -> KindCounts:
        """Clusters of each kind."""
        ...

    def pool(self, state: ChainState, base: Floats, seed: int, chain: int) -> Pooled:
        """Draw what blocks with shares of their own say of the common ones."""
        ...

    def weigh_shares(self, state: ChainState, base: Floats) -> Int64s:
        """Sum what blocks with shares of their own weigh, in logs (2,); see `smered.sums`."""
        ...

    def sweep(
        self, state: ChainState, parameters: Parameters, prior: LinkagePrior, seed: int, chain: int
    ) -> Statistics:
        """Propose splits and merges in every block, then draw y and z."""
        ...

    def count(self, state: ChainState, parameters: Parameters, seed: int, chain: int) -> Statistics:
        """Count y and z of the linkage as it is."""
        ...

    def weigh_field(self, state: ChainState, parameters: Parameters, field: int) -> Int64s:
        """Sum the log weights of all clusters in one field (2,); see `smered.sums`."""
        ...

    def grade(
        self,
        state: ChainState,
        parameters: Parameters,
        prior: LinkagePrior,
        before: int,
        seed: int,
        chain: int,
    ) -> None:
        """Grade candidates by the state as it is, and by so many states before it."""
        ...

    def tune(self, state: ChainState, informed: float, uniform: float) -> None:
        """Go on with so many proposals by the grades of candidates, and so many uniform ones."""
        ...

    def find_doubtful(self, fields: Sequence[int]) -> dict[int, int]:
        """Find what may be toggles of each field; return how doubtful they are."""
        ...

    def find_toggles(
        self,
        state: ChainState,
        parameters: Parameters,
        prior: LinkagePrior,
        field: int,
        rates: Floats,
        seed: int,
        chain: int,
    ) -> FoundToggles:
        """Find which doubtful pairs are toggles now, and weigh all other clusters in the field."""
        ...

    def weigh_toggles(self, field: int, kinds: Int32s, log_odds: Floats) -> Int64s:
        """Sum log(1 + odds) of the toggles just found, at each rate (2, rates)."""
        ...

    def draw_toggles(
        self, state: ChainState, field: int, kinds: Int32s, log_odds: Floats, seed: int, chain: int
    ) -> int:
        """Draw how the toggles just found shall stand; return how many shall be together."""
        ...

    def set_toggles(self, state: ChainState, field: int) -> None:
        """Set the toggles as they were just drawn."""
        ...

    def close(self) -> None:
        """Release threads and workers, where there are any."""
        ...
