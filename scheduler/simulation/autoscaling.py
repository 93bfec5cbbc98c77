"""Autoscaling: read its terms, refuse clusters that do not support it, and describe what it cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from scheduler.core.model import wording
from scheduler.core.sim.result import Result
from scheduler.core.sim.rules import Autoscaling
from scheduler.simulation.errors import InputError
from scheduler.simulation.inventory import ClusterSpec
from scheduler.simulation.traces.fields import BadField, number, shown, stated

_NODES = ("min_nodes", "max_nodes")


def read_autoscaling(where: str, given: Any) -> Autoscaling:
    """Return the terms in an object; raise InputError that names the wrong field."""
    known = [each.name for each in fields(Autoscaling)]
    if not isinstance(given, Mapping):
        raise InputError(f"{where}: {shown(given)} is not an object like {{min_nodes: 1, max_nodes: 4}}")
    values: dict[str, Any] = {}
    for name, value in stated(given).items():
        if name not in known:
            raise InputError(f"{where}: there is no {name!r}; choose {wording.either(known)}")
        try:
            values[name] = number(name, value if isinstance(value, int | float) else str(value))
        except BadField as bad:
            raise InputError(f"{where}: {bad}") from None
        if name in _NODES:
            if values[name] != int(values[name]):
                raise InputError(f"{where}: {name} is {value}; it must be a whole number")
            values[name] = int(values[name])
    try:
        return Autoscaling(**values)
    except ValueError as error:
        raise InputError(f"{where}: {error}") from None


def refuse_autoscaling(terms: Autoscaling, cluster: ClusterSpec, rounds: str, *, is_private: bool) -> None:
    """Raise InputError if autoscaling does not support the cluster, its rounds or private clusters."""
    nodes, models = len(cluster.nodes), sorted(cluster.gpus_by_model)
    if rounds:
        raise InputError(f"--rounds {rounds} does not support autoscaling: leave it out")
    if is_private:
        raise InputError("--private compares with clusters of a fixed size: leave autoscaling out")
    if len(models) != 1:
        raise InputError(
            f"autoscaling is for nodes of one GPU model; this cluster has {wording.listed(models)}"
        )
    if cluster.pools:
        raise InputError("autoscaling is for clusters without serving pools, whose nodes come and go already")
    if max(terms.min_nodes, terms.max_nodes or 1) > nodes:
        name = "max_nodes" if (terms.max_nodes or 1) > nodes else "min_nodes"
        raise InputError(
            f"autoscaling: {name} is {getattr(terms, name)}; it must be at most {nodes}, the cluster's nodes"
        )


def service_words(result: Result) -> str:
    """Return a sentence on what an autoscaled run cost and how long its jobs took; empty for other runs."""
    if not result.is_autoscaled or result.node_seconds is None or result.all_node_seconds is None:
        return ""
    times = [job.completion_seconds for job in result.jobs if job.completion_seconds is not None]
    words = (
        f"Nodes were in service for {result.node_seconds / 3600:,.2f} node-hours; all of them all the time"
        f" would be {result.all_node_seconds / 3600:,.2f}."
    )
    if times:
        words += f" Mean completion time: {sum(times) / len(times) / 3600:,.2f} h."
    return words
