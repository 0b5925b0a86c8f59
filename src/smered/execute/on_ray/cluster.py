"""Where workers come from: a Ray cluster, and what to do when some of it is lost."""

import logging
import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from smered.errors import ConfigError, RunError
from smered.execute.on_ray.coding import Coding
from smered.execute.on_ray.executor import OnRay, RemoteLinkage, RotatingOnRay
from smered.execute.on_ray.outline import count_part, find_patterns, outline_of_run
from smered.execute.on_ray.rotating import RotatingWorker
from smered.execute.on_ray.worker import Arranged, Worker, versions
from smered.labels import Groups
from smered.model import PROPOSALS_PER_RECORD, Model, usual_proposals
from smered.parts import cut_records
from smered.sampler import Settings
from smered.sources import ParquetTable
from smered.state import ChainState
from smered.store.folder import RunFolder
from smered.tuning import add_totals
from smered.warm import compile_kernels

__all__ = ["OnCluster", "RayCluster"]

KNOCK = 10.0  # seconds
MOST_LOSSES = 5  # of workers, one after the other, without a checkpoint between them


@dataclass(frozen=True)
class RayCluster:
    """A Ray cluster to run on.

    `address` is that of its head, as `ray.init` takes it; left out, a cluster that runs on this
    machine, or else a new one. A connection that there is already is used as it is. `workers` share
    a chain's parts (default: one per processor); each runs on so many `threads`, and must have
    started after `patience` seconds.
    """

    address: str | None = None
    workers: int | None = None
    threads: int = 1
    patience: float = 120.0

    def seats(self, run: RunFolder, settings: Settings) -> "OnCluster":
        """Seats for the chains of a run."""
        return OnCluster(run, settings, self)

    def coding(self, tables: Mapping[str, ParquetTable], **how: Any) -> Coding:
        """Code tables on the cluster; see `Coding`."""
        return Coding(self.connect(), tables, **how)

    def connect(self) -> Any:
        """Connect to the cluster; return the module `ray`."""
        try:
            import ray
        except ImportError:
            raise ConfigError(
                "Ray is not installed: install it with pip install 'smered[ray]'"
            ) from None
        if not ray.is_initialized():
            try:
                self._knock()
                ray.init(
                    address=self.address,
                    include_dashboard=False if self.address is None else None,
                    log_to_driver=False,
                    logging_level=logging.ERROR,
                )
            except (OSError, ValueError, RuntimeError) as error:
                where = f"Ray at {self.address}" if self.address else "a Ray cluster"
                first = str(error).strip().splitlines()[0] if str(error).strip() else "no answer"
                raise ConfigError(
                    f"cannot reach {where}: {first}; check the address, and that the cluster runs"
                ) from None
        return ray

    def _knock(self) -> None:
        """Try the address by itself: Ray would wait for minutes."""
        place = re.fullmatch(r"(?:ray://)?(.+):(\d+)", self.address or "")
        if place:
            socket.create_connection((place[1], int(place[2])), timeout=KNOCK).close()


class OnCluster:
    """Seats for chains on a cluster; see `smered.run.Here`."""

    def __init__(self, run: RunFolder, settings: Settings, cluster: RayCluster) -> None:
        self._ray = cluster.connect()
        self._run, self._settings, self._cluster = run, settings, cluster
        self.failures: tuple[type[Exception], ...] = (self._ray.exceptions.RayError,)
        compile_kernels()  # once, rather than in every worker of this machine
        self._parts = len(run.content.parts) - 1
        count = self._ray.remote(num_cpus=1)(count_part)
        path = str(run.path.absolute())
        counts = self._ray.get([count.remote(path, part) for part in range(self._parts)])
        outline = outline_of_run(run, counts)
        self.model: Model = outline.model
        self._outline = self._ray.put(outline)
        self._patterns = self._ray.get(
            self._ray.remote(num_cpus=1)(find_patterns).remote(path, self._outline)
        )
        at_once = max(1, self._processors() // self._parts)
        self.at_once = min(settings.chains, at_once)
        self._losses = 0
        self._kept = -1  # sweeps that were committed when a worker was last lost

    def seat(self, chain: int) -> tuple[OnRay, RemoteLinkage]:
        """Workers for a chain, ready to start or to go on."""
        ray = self._ray
        shares = self._shares(max(1, self._processors() // self.at_once))
        kind = RotatingWorker if self.model.rotates else Worker
        create = ray.remote(num_cpus=self._cluster.threads, max_restarts=0)(kind)
        path = str(self._run.path.absolute())
        workers = [create.remote(path, chain, parts, self._cluster.threads) for parts in shares]
        try:
            self._check_versions(
                ray.get([w.versions.remote() for w in workers], timeout=self._cluster.patience)
            )
            prepare = self._rotating if self.model.rotates else self._blocked
            execute = prepare(workers, shares)
        except BaseException:
            for worker in workers:
                ray.kill(worker)
            raise
        return execute, RemoteLinkage(execute)

    def _blocked(self, workers: list[Any], shares: list[tuple[int, int]]) -> OnRay:
        """Let workers find candidates, and share proposals out over all of them."""
        ray = self._ray
        arranged: list[Arranged] = ray.get(
            [w.arrange.remote(self._outline, self._patterns) for w in workers]
        )
        weights = [one.block_weight for one in arranged if one.block_weight is not None]
        given = (
            self._settings.proposals,
            add_totals([one.totals for one in arranged]),
            sum(weights) if weights else None,
        )
        uniform = ray.get([w.share_out.remote(*given) for w in workers])
        groups = Groups.of(self.model.block_sizes).sizes
        candidates = any(one.candidates for one in arranged)
        return OnRay(workers, self.model, groups, candidates, uniform[0])

    def _rotating(self, workers: list[Any], shares: list[tuple[int, int]]) -> RotatingOnRay:
        """Let workers take their parts of the records."""
        parts = self._run.content.parts
        cuts = [*(parts[first] for first, _ in shares), self.model.size]
        usual = round(usual_proposals(self.model.size, PROPOSALS_PER_RECORD))
        given = (self._outline, cuts, self._settings.proposals or usual, self._parts > 1)
        self._ray.get([w.prepare.remote(*given) for w in workers])
        return RotatingOnRay(workers, self.model)

    def check(self, chain: int, state: ChainState) -> None:
        """Workers hold the linkage; each checks its parts as it reads them."""

    def recover(self, error: Exception) -> None:
        """Decide whether a chain can go on from its last checkpoint after losing a worker."""
        errors, cause = self._ray.exceptions, error
        while isinstance(cause, errors.RayTaskError):  # one for each task that waited for another
            cause = cause.cause
        if not isinstance(cause, errors.RayError):
            raise cause
        kept = self._run.sweeps_kept()
        self._losses = self._losses + 1 if kept == self._kept else 1
        self._kept = kept
        if self._losses > MOST_LOSSES or not self._ray.is_initialized():
            raise RunError(
                f"workers were lost {self._losses} times without progress: {error}; what was kept "
                "can be resumed"
            ) from error

    def _processors(self) -> int:
        """Workers that the cluster has room for."""
        processors = int(self._ray.cluster_resources().get("CPU", 1))
        room = max(1, processors // self._cluster.threads)
        return min(self._cluster.workers or room, room)

    def _shares(self, workers: int) -> list[tuple[int, int]]:
        """Which parts each of so many workers takes, about as many records each."""
        parts = np.array(self._run.content.parts)
        cuts = cut_records(np.diff(parts), min(workers, self._parts))
        edges = np.searchsorted(parts, cuts).tolist()
        return list(pairwise(edges))

    def _check_versions(self, found: list[dict[str, str]]) -> None:
        """Refuse workers that would give other bytes."""
        own = versions()
        for one in found:
            for name, version in one.items():
                if version != own[name]:
                    raise ConfigError(
                        f"a worker has {name} {version}, this machine {own[name]}: install the "
                        "same versions on all nodes"
                    )
