"""The rows that a chain produces: lifetimes that ended, draws of the parameters, timings."""

import time
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from smered.layout import Int32s, Int64s
from smered.model import Model
from smered.sampler import Step
from smered.store.lifetimes import LIFETIMES, LifetimeRecorder

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
    """Tables of what a chain produced since it was last asked."""

    lifetimes: pa.Table
    draws: pa.Table
    timings: pa.Table


class ChainRecorder:
    """Turns the sweeps of one chain into rows."""

    def __init__(
        self,
        chain: int,
        model: Model,
        entity: Int32s | None = None,
        born: Int32s | None = None,
        moves: Int64s | None = None,
    ) -> None:
        self.lifetimes = LifetimeRecorder(chain, model.order, entity, born)
        self._model = model
        self.moves = np.zeros(len(MOVES), np.int64) if moves is None else moves
        self.last_draw = -1
        self._since = time.perf_counter()
        self._ended: list[pa.Table] = []
        self._draws: list[dict[str, object]] = []
        self._timings: list[dict[str, object]] = []

    def add(self, step: Step) -> None:
        """Take one sweep; only those that end a draw leave rows."""
        self.moves += step.moves
        if step.draw is None:
            return
        model, state, now = self._model, step.state, time.perf_counter()
        ended = self.lifetimes.add(step.draw, state.entity)
        if len(ended):
            self._ended.append(ended)
        row = {"chain": step.chain, "draw": step.draw}
        self._draws.append(
            row
            | {"entities": state.entities, "log_posterior": step.log_posterior}
            | dict(zip(MOVES, self.moves.tolist(), strict=True))
            | {
                "theta": state.theta[model.learned],
                "beta": state.beta.ravel(),
                "closeness": state.closeness,
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
            pa.concat_tables([LIFETIMES.empty_table(), *self._ended]).combine_chunks(),
            pa.Table.from_pylist(self._draws, schema=DRAWS),
            pa.Table.from_pylist(self._timings, schema=TIMINGS),
        )
        self._ended, self._draws, self._timings = [], [], []
        return rows

    def put_back(self, rows: Rows) -> None:
        """Take rows back that are to be handed over again together with later ones."""
        self._ended = [rows.lifetimes, *self._ended]
        self._draws = rows.draws.to_pylist() + self._draws
        self._timings = rows.timings.to_pylist() + self._timings

    def living(self) -> pa.Table:
        """Clusters that the last draw holds."""
        if self.last_draw < 0 and not len(self.lifetimes.entity):
            return LIFETIMES.empty_table()
        return self.lifetimes.living(self.last_draw)
