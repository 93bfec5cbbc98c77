"""Settings of an operator for the whole cluster: how the spare GPUs are handed out, how far policies may
preempt running jobs, and when idle GPUs are too many.
"""

from collections.abc import Mapping
from typing import Any

from django.db import transaction

from scheduler.models.cluster import ClusterSettings
from scheduler.models.selectors.cluster import cluster_settings
from scheduler.wiring.plugins import PLACER, POLICY
from scheduler.wiring.wakeups import request_round_on_commit
from tenants.errors import Invalid
from tenants.selectors import Viewer


@transaction.atomic
def cluster_settings_change(*, by: Viewer, changes: Mapping[str, Any]) -> dict[str, Any]:
    """Change the given settings, plug-ins as `ChosenPlugin`; return all settings.

    Raise Invalid naming the field at fault.
    """
    by.require_operator()
    columns = dict(changes)
    problems = []
    for kind, name in ((POLICY, "spare_policy"), (PLACER, "spare_placer")):
        chosen = columns.pop(f"{name}_plugin", None)
        if chosen is not None:
            problems += kind.problems(chosen, f"{name}_plugin")
            columns |= {name: chosen.name, f"{name}_parameters": dict(chosen.parameters)}
    if problems:
        raise Invalid.of(*problems)
    ClusterSettings.objects.get_or_create(id=1)
    row = ClusterSettings.objects.select_for_update().get(id=1)
    before = cluster_settings()
    for name, value in columns.items():
        setattr(row, name, value)
    row.save()
    after = cluster_settings()
    if after != before:
        request_round_on_commit()
    return after
