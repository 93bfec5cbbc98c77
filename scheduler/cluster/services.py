"""What an operator decides for the cluster as a whole: how the spare GPUs are handed out, how far policies
may go against jobs that run, and when GPUs that do nothing are too many.
"""

from collections.abc import Mapping
from typing import Any

from django.db import transaction

from scheduler.cluster.models import ClusterSettings
from scheduler.cluster.selectors import cluster_settings
from scheduler.plugins import problems_with_placer, problems_with_policy
from scheduler.wakeups import request_round_on_commit
from tenants.errors import Invalid
from tenants.selectors import Viewer


@transaction.atomic
def cluster_settings_change(*, by: Viewer, changes: Mapping[str, Any]) -> dict[str, Any]:
    """Change what is given; return the settings, or raise Invalid naming the field at fault."""
    by.require_operator()
    problems = []
    if "spare_policy" in changes:
        problems += problems_with_policy(changes["spare_policy"], {}, field="spare_policy")
    if "spare_placer" in changes:
        problems += problems_with_placer(changes["spare_placer"], field="spare_placer")
    if problems:
        raise Invalid(f"{problems[0].field}: {problems[0].problem}.", problems)
    ClusterSettings.objects.get_or_create(id=1)
    row = ClusterSettings.objects.select_for_update().get(id=1)
    before = cluster_settings()
    for name, value in changes.items():
        setattr(row, name, value)
    row.save()
    after = cluster_settings()
    if after != before:
        request_round_on_commit()
    return after
