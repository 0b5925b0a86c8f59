"""A row of the benchmark table."""

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """A measured figure, and the bound it should keep."""

    name: str
    value: float
    unit: str
    target: str

    @property
    def shown(self) -> str:
        """The figure with a sensible number of digits."""
        return f"{self.value:,.1f}" if self.value >= 1000 else f"{self.value:.3g}"

    @property
    def kept(self) -> bool | None:
        """Whether the figure keeps its bound; None without one."""
        found = re.fullmatch(r"(<=|>=|<|>) ([\d.]+)", self.target)
        if not found:
            return None
        bound = float(found[2])
        return {
            "<": self.value < bound,
            "<=": self.value <= bound,
            ">": self.value > bound,
            ">=": self.value >= bound,
        }[found[1]]
