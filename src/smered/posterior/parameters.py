"""The parameters of every draw: level probabilities, distortion rates, closeness, classes."""

from abc import abstractmethod
from functools import cached_property

import numpy as np
import pyarrow as pa

from smered.errors import RunError
from smered.layout import Floats
from smered.model import Model
from smered.state import ONE_CLASS, Classes

__all__ = ["ParameterDraws"]


class ParameterDraws:
    """The part of a posterior that reads parameters, each when it is first asked for."""

    chains: int
    draws: int

    @property
    @abstractmethod
    def model(self) -> Model:
        """The model that was sampled."""

    @abstractmethod
    def _draws(self, *columns: str) -> pa.Table:
        """Columns of the draws table, by chain and draw."""

    def _lists(self, name: str) -> Floats:
        flat = self._draws(name)[name].combine_chunks().flatten().to_numpy()
        least = {"theta": np.nextafter(0, 1), "beta": 0.0, "closeness": 0.0}.get(name)
        if least is not None and not ((flat >= least) & (flat <= 1)).all():
            raise RunError(f"the draws are damaged: {name} holds what is no probability")
        return flat.reshape(self.chains, self.draws, -1)

    @cached_property
    def theta(self) -> dict[str, Floats]:
        """Level probabilities of each field (chains, draws, levels)."""
        flat = self._lists("theta")
        found, first = {}, 0
        for part in self.model.coded:
            shape = (self.chains, self.draws, len(part.mu))
            if part.similar is not None:
                found[part.name] = np.broadcast_to(part.near.share, shape)
            elif self.model.classes > 1:
                found[part.name] = np.broadcast_to(part.base_shares, shape)
            else:
                found[part.name] = flat[:, :, first : first + len(part.mu)]
                first += len(part.mu)
        return found

    def classes(self, chain: int, draw: int) -> Classes:
        """The latent classes of a draw: shares, and probabilities of true values in each."""
        if self.model.classes == 1:
            return ONE_CLASS
        weight, flat = self._classes
        theta = np.ones(self.model.class_shape)
        theta[self.model.mixed] = flat[chain, draw].reshape(-1, self.model.classes)
        return Classes(weight[chain, draw], theta)

    @cached_property
    def _classes(self) -> tuple[Floats, Floats]:
        return self._lists("class_weights"), self._lists("class_theta")

    @cached_property
    def beta(self) -> Floats:
        """Distortion rates (chains, draws, rows, fields): one row, or one per file."""
        rows, fields = self.model.observed.shape
        return self._lists("beta").reshape(self.chains, self.draws, rows, fields)

    @cached_property
    def closeness(self) -> Floats:
        """Share of slips among distorted values (chains, draws, fields); 0 where all are alike."""
        return self._lists("closeness")

    @cached_property
    def hyperparameters(self) -> dict[str, Floats]:
        """Learned hyperparameters of the prior on the linkage (chains, draws)."""
        values, names = self._lists("hyperparameters"), self.model.partition_prior.hyperparameters
        if values.shape[2] != len(names):
            raise RunError("the prior of this run is that of another version; link the files again")
        return {name: values[:, :, i] for i, name in enumerate(names)}
