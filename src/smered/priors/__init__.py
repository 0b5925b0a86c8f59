"""Priors on the linkage: a partition into N clusters weighs V[N] * prod over clusters W[kind].

V couples the blocks. Each prior therefore says how to condition on an auxiliary draw, once per
sweep, given which blocks are independent (docs/mathematics.md, section 4). Kernels see nothing but
the resulting arrays, so a new prior needs no kernel code.

With learned hyperparameters the prior is joint: that of (hyperparameters, partition) without
restrictions, conditioned on the partition being legal. Its normalising constant does not depend on
the hyperparameters, which makes their update exact under any restriction.
"""

from smered.priors.prior import Prior, PriorChoice
from smered.priors.restaurant import Ewens, PitmanYor
from smered.priors.sizes import ClusterSizes
from smered.priors.uniform import UniformLabels, UniformPartitions

__all__ = ["ClusterSizes", "Ewens", "PitmanYor", "Prior", "PriorChoice", "UniformLabels"]
__all__ += ["UniformPartitions"]
