"""Sweeps on a Ray cluster: workers hold parts of the records, the driver draws what they share."""

from smered.execute.on_ray.cluster import RayCluster

__all__ = ["RayCluster"]
