"""Finish-time fairness of a tenant's apps in a virtual cluster, whatever its policy is."""

from __future__ import annotations

from collections.abc import Mapping

from scheduler.core.building_blocks.policy import View
from scheduler.core.building_blocks.time_shares.run_options import RunOptions
from scheduler.core.model.snapshot import Memory
from scheduler.core.policies.themis.apps import (
    App,
    Contention,
    apps_of,
    elapsed_seconds,
    even_rate,
    rho,
    rho_now,
)


def rhos_of(view: View, run_options: RunOptions, memory: Memory) -> tuple[dict[str, list[float]], Memory]:
    """Return the rhos of each tenant's apps, and what to remember of who shared the virtual cluster."""
    apps = apps_of(view, run_options)
    contention = Contention(memory, view.now, {app.name: app.weight for app in apps})
    found: dict[str, list[float]] = {}
    for app in apps:
        value = _rho(app, view, run_options, run_options.gpus, contention.of(app))
        if value is not None:
            found.setdefault(app.tenant, []).append(value)
    return found, contention.remember()


def _rho(
    app: App, view: View, run_options: RunOptions, gpus: Mapping[str, int], contention: float
) -> float | None:
    """Return the rho it comes to with what it holds; one that waits, if it had its even part from now on."""
    held = rho_now(app, view, run_options, contention)
    even = even_rate(app, gpus, contention)
    if held is not None or even <= 0:
        return held
    return rho(elapsed_seconds(app, view.now), app.left / even, app.work / even)
