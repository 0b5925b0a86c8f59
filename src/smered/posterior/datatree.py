"""The draws in the layout that ArviZ and xarray users expect."""

from typing import TYPE_CHECKING, Any

import numpy as np

from smered.store.rows import KINDS, MOVES

if TYPE_CHECKING:
    import xarray

    from smered.posterior.posterior import Posterior

__all__ = ["make_datatree"]


def make_datatree(posterior: "Posterior") -> "xarray.DataTree":
    """Groups `posterior` and `sample_stats`, dimensions chain and draw first.

    Coordinates name fields, files and levels; a field's level probabilities have a dimension of
    their own, `level_FIELD`, and with latent classes one more, `class`.
    """
    import xarray

    import smered

    model, records = posterior.model, posterior.records
    free = np.flatnonzero(~model.exact)
    names = [part.name for part in model.coded]
    axes = ("chain", "draw")
    variables: dict[str, Any] = {"entities": (axes, posterior.entities().draws)}
    coordinates: dict[str, Any] = {
        "chain": np.arange(posterior.chains),
        "draw": np.arange(posterior.draws),
        "field": [names[i] for i in free],
    }
    rates = posterior.beta[:, :, :, free]
    if model.rate_rows > 1:
        coordinates["file"] = list(records.files)
        variables["beta"] = ((*axes, "file", "field"), rates)
    else:
        variables["beta"] = ((*axes, "field"), rates[:, :, 0])
    if model.close.any():
        coordinates["near_field"] = [names[i] for i in np.flatnonzero(model.close)]
        variables["closeness"] = ((*axes, "near_field"), posterior.closeness[:, :, model.close])
    for part, values in zip(model.coded, posterior.theta.values(), strict=True):
        if part.similar is not None:
            continue  # its level probabilities are not learned
        name = part.name.replace("/", "|")  # a slash would name a group
        coordinates[f"level_{name}"] = part.levels.to_pylist()
        if model.classes > 1:
            by_class = (*axes, f"level_{name}", "class")
            variables[f"theta_{name}"] = (by_class, posterior.class_theta[part.name])
        else:
            variables[f"theta_{name}"] = ((*axes, f"level_{name}"), values)
    if model.classes > 1:
        coordinates["class"] = np.arange(model.classes)
        variables["class_weights"] = ((*axes, "class"), posterior.class_weights)
    overlap = posterior.overlap()
    coordinates["pattern"] = [" & ".join(pattern) for pattern in overlap.kinds]
    variables["overlap"] = ((*axes, "pattern"), overlap.draws.transpose(1, 2, 0))
    variables |= {
        name.replace("/", "|"): (axes, draws) for name, draws in posterior.hyperparameters.items()
    }

    moves = {name: posterior.trace(name) for name in MOVES}
    proposed = sum(moves[f"{kind}_proposed"] for kind in KINDS)
    accepted = sum(moves[f"{kind}_accepted"] for kind in KINDS)
    statistics: dict[str, Any] = {
        "lp": (axes, posterior.trace("log_posterior")),
        "acceptance_rate": (axes, accepted / np.maximum(proposed, 1)),
    } | {name: (axes, values) for name, values in moves.items()}
    about = {"inference_library": "smered", "inference_library_version": smered.__version__}
    own = {name: coordinates[name] for name in axes}
    return xarray.DataTree.from_dict(
        {
            "posterior": xarray.Dataset(variables, coordinates, about),
            "sample_stats": xarray.Dataset(statistics, own, about),
        }
    )
