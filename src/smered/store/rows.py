"""What a chain leaves behind: its linkage, part by part, draws of the parameters, timings."""

import time
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from smered.model import Model
from smered.sampler import Step
from smered.store.parts import Linkage

__all__ = ["DRAWS", "KINDS", "MOVES", "TIMINGS", "ChainRecorder", "Rows"]

KINDS = ("merges", "splits", "transfers")
MOVES = tuple(f"{kind}_{what}" for kind in KINDS for what in ("proposed", "accepted"))


def required(name: str, kind: pa.DataType) -> pa.Field:
    """A column without nulls."""
    return pa.field(name, kind, nullable=False)


DRAWS = pa.schema(
    [
        required("chain", pa.int32()),
        required("draw", pa.int32()),
        required("entities", pa.int64()),
        required("log_posterior", pa.float64()),
        *(required(name, pa.int64()) for name in MOVES),
        required("theta", pa.list_(required("probability", pa.float64()))),
        required("beta", pa.list_(required("rate", pa.float64()))),
        required("closeness", pa.list_(required("share", pa.float64()))),
        required("change", pa.list_(required("rate", pa.float64()))),
        required("class_weights", pa.list_(required("share", pa.float64()))),
        required("class_theta", pa.list_(required("probability", pa.float64()))),
        required("hyperparameters", pa.list_(required("value", pa.float64()))),
    ]
)

TIMINGS = pa.schema(
    [
        required("chain", pa.int32()),
        required("draw", pa.int32()),
        required("seconds", pa.float64()),
    ]
)


class Rows(NamedTuple):
    """Tables of what a chain produced since it was last asked, besides its linkage."""

    draws: pa.Table
    timings: pa.Table


class ChainRecorder:
    """Turns the sweeps of one chain into rows."""

    def __init__(self, model: Model, linkage: Linkage) -> None:
        self.linkage = linkage
        self._model = model
        self.moves = np.zeros(len(MOVES), np.int64)
        self.last_draw = -1
        self._since = time.perf_counter()
        self._draws: list[dict[str, object]] = []
        self._timings: list[dict[str, object]] = []

    def add(self, step: Step) -> None:
        """Take one sweep; only those that end a draw leave rows."""
        self.moves += step.moves
        if step.draw is None:
            return
        model, state, now = self._model, step.state, time.perf_counter()
        self.linkage.follow(step.draw, state)
        row = {"chain": step.chain, "draw": step.draw}
        self._draws.append(
            row
            | {"entities": state.entities, "log_posterior": step.log_posterior}
            | dict(zip(MOVES, self.moves.tolist(), strict=True))
            | {
                "theta": state.theta[model.learned],
                "beta": state.beta.ravel(),
                "closeness": state.closeness,
                "change": state.change[:, model.changing].ravel(),
                "class_weights": state.class_weight,
                "class_theta": state.class_theta[model.mixed].ravel() if model.classes > 1 else [],
                "hyperparameters": state.hyperparameters,
            }
        )
        self._timings.append(row | {"seconds": now - self._since})
        self.last_draw = step.draw
        self.moves = np.zeros(len(MOVES), np.int64)
        self._since = now

    def take(self) -> Rows:
        """Hand over the rows collected so far."""
        rows = Rows(
            pa.Table.from_pylist(self._draws, schema=DRAWS),
            pa.Table.from_pylist(self._timings, schema=TIMINGS),
        )
        self._draws, self._timings = [], []
        return rows

    def put_back(self, rows: Rows) -> None:
        """Take rows back that are to be handed over again together with later ones."""
        self._draws = rows.draws.to_pylist() + self._draws
        self._timings = rows.timings.to_pylist() + self._timings
