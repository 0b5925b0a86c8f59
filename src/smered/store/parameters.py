"""The arrays of a chain besides its linkage, as a checkpoint keeps them."""

from typing import Any

import numpy as np
import pyarrow as pa

from smered.errors import RunError
from smered.model import Model
from smered.state import ChainState
from smered.store.parts import pack, take_array
from smered.store.rows import MOVES, ChainRecorder

__all__ = ["pack_state", "unpack_state"]


def pack_state(state: ChainState, recorder: ChainRecorder) -> pa.Table:
    """The arrays of a chain, its linkage left out."""
    arrays = {name: value for name, value in vars(state).items() if isinstance(value, np.ndarray)}
    for name in ("entity", "grade"):
        del arrays[name]
    return pack(arrays | {"moves": recorder.moves})


def unpack_state(table: pa.Table, chain: int, model: Model, recorder: ChainRecorder) -> ChainState:
    """The reverse of `pack_state`; every array must have the size that the model gives it."""
    data: dict[str, bytes] = {row["name"]: row["data"] for row in table.to_pylist()}
    levels, rates = len(model.mu), model.observed.shape
    damaged = f"the checkpoint of chain {chain} is damaged"

    def array(name: str, kind: type[np.generic], *shape: int) -> Any:
        return take_array(data, damaged, name, kind, *shape)

    recorder.moves = array("moves", np.int64, len(MOVES))
    state = ChainState(
        sweep=0,
        entity=np.empty(0, np.int32),
        entities=0,
        theta=array("theta", np.float64, levels),
        beta=array("beta", np.float64, *rates),
        closeness=array("closeness", np.float64, rates[1]),
        change=array("change", np.float64, *model.change_shape),
        class_weight=array("class_weight", np.float64, model.classes),
        class_theta=array("class_theta", np.float64, *model.class_shape),
        hyperparameters=array(
            "hyperparameters", np.float64, len(model.partition_prior.hyperparameters)
        ),
        level_counts=array("level_counts", np.int64, levels),
        distorted=array("distorted", np.int64, *rates),
        telling=array("telling", np.int64, *rates),
        slips=array("slips", np.int64, *rates),
        changed=array("changed", np.int64, *model.change_shape),
        exposed=array("exposed", np.int64, *model.change_shape),
        class_counts=array("class_counts", np.int64, model.classes),
        class_levels=array("class_levels", np.int64, *model.class_shape),
        grade=np.empty(0, np.uint8),
    )
    wrong = find_wrong_parameter(state, model)
    if wrong:
        raise RunError(f"{damaged}: {wrong}")
    return state


def find_wrong_parameter(state: ChainState, model: Model) -> str | None:
    """What no chain can have among its parameters and counts, if there is any."""
    for name in ("theta", "beta", "closeness", "change", "class_weight", "class_theta"):
        values = getattr(state, name)
        if not ((values >= 0.0) & (values <= 1.0)).all():
            return f"{name} holds what is no probability"
    if not np.allclose(np.add.reduceat(state.theta, model.field_start[:-1]), 1.0):
        return "theta does not sum to 1"
    if not ((state.hyperparameters > 0.0) & np.isfinite(state.hyperparameters)).all():
        return "hyperparameters of the prior are not positive numbers"
    counts = (
        state.changed,
        state.exposed - state.changed,
        state.level_counts,
        state.slips,
        state.class_counts,
        state.class_levels,
    )
    if any((each < 0).any() for each in (state.distorted, *counts)):
        return "counts are negative"
    if (state.distorted > state.telling).any() or (state.telling > model.observed).any():
        return "more values are distorted than there are"
    return None
