"""The parameters of every draw: level probabilities, distortion rates, closeness, classes."""

import itertools
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

    def _lists(self, name: str, length: int) -> Floats:
        lists = self._draws(name)[name].combine_chunks()
        if (np.diff(lists.offsets.to_numpy()) != length).any():
            raise RunError(f"the draws are damaged: {name} does not have {length} numbers")
        flat = lists.flatten().to_numpy()
        least = np.nextafter(0, 1) if name in ("theta", "class_theta", "class_weights") else 0.0
        if name != "hyperparameters" and not ((flat >= least) & (flat <= 1)).all():
            raise RunError(f"the draws are damaged: {name} holds what is no probability")
        return flat.reshape(self.chains, self.draws, -1)

    @cached_property
    def theta(self) -> dict[str, Floats]:
        """Level probabilities of each field (chains, draws, levels).

        Where they are not learned, and with latent classes, those of distorted values.
        """
        flat = self._lists("theta", int(self.model.learned.sum()))
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
        theta = np.ones(self.model.class_shape)
        theta[self.model.mixed] = self._class_theta[chain, draw]
        return Classes(self.class_weights[chain, draw], theta)

    @cached_property
    def class_weights(self) -> Floats:
        """Shares of the latent classes (chains, draws, classes)."""
        return self._lists("class_weights", self.model.classes)

    @cached_property
    def class_theta(self) -> dict[str, Floats]:
        """Level probabilities of each field in each class (chains, draws, levels, classes)."""
        flat, mixed, found, first = self._class_theta, self.model.mixed, {}, 0
        spans = itertools.pairwise(self.model.field_start)
        for part, (start, end) in zip(self.model.coded, spans, strict=True):
            if mixed[start]:
                found[part.name] = flat[:, :, first : first + end - start]
                first += end - start
        return found

    @cached_property
    def _class_theta(self) -> Floats:
        classes, levels = self.model.classes, int(self.model.mixed.sum())
        flat = self._lists("class_theta", levels * classes)
        return flat.reshape(self.chains, self.draws, levels, classes)

    @cached_property
    def beta(self) -> Floats:
        """Distortion rates (chains, draws, rows, fields): one row, or one per file."""
        rows, fields = self.model.observed.shape
        return self._lists("beta", rows * fields).reshape(self.chains, self.draws, rows, fields)

    @cached_property
    def closeness(self) -> Floats:
        """Share of slips among distorted values (chains, draws, fields); 0 where all are alike."""
        return self._lists("closeness", len(self.model.coded))

    @cached_property
    def change(self) -> Floats:
        """Rates at which true values change (chains, draws, steps, fields that change).

        A step leads from one file to the next in time.
        """
        steps, fields = len(self.model.records.files) - 1, int(self.model.changing.sum())
        flat = self._lists("change", steps * fields)
        return flat.reshape(self.chains, self.draws, steps, fields)

    @cached_property
    def hyperparameters(self) -> dict[str, Floats]:
        """Learned hyperparameters of the prior on the linkage (chains, draws)."""
        names = self.model.partition_prior.hyperparameters
        values = self._lists("hyperparameters", len(names))
        return {name: values[:, :, i] for i, name in enumerate(names)}
