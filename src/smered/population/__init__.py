"""How many entities there are, seen or not, from how the files overlap."""

from smered.population.estimate import METHODS, Population
from smered.population.methods import chao, chapman, graphs, loglinear

__all__ = ["METHODS", "Population", "chao", "chapman", "graphs", "loglinear"]
