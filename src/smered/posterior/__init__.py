"""What the draws say: every question of the paper, answered by sums over cluster lifetimes."""

from smered.posterior.posterior import Posterior

__all__ = ["Posterior"]
