"""What an operator decides for the cluster as a whole: how the spare GPUs are handed out."""

from django.db import transaction

from scheduler.hints import hint_round
from scheduler.models import ClusterSettings
from scheduler.plugins import problems_with_placer, problems_with_policy
from tenants.errors import Invalid
from tenants.selectors import Viewer
from tenants.services import audit


def cluster_settings() -> dict[str, str]:
    """Return the settings, JSON-ready."""
    row = ClusterSettings.objects.filter(id=1).first() or ClusterSettings(id=1)
    return {"spare_policy": row.spare_policy, "spare_placer": row.spare_placer}


@transaction.atomic
def cluster_settings_change(
    *, by: Viewer, spare_policy: str | None = None, spare_placer: str | None = None
) -> dict[str, str]:
    """Change what is given; return the settings, or raise Invalid naming the field at fault."""
    by.require_operator()
    problems = [] if spare_policy is None else problems_with_policy(spare_policy, {}, field="spare_policy")
    problems += [] if spare_placer is None else problems_with_placer(spare_placer, field="spare_placer")
    if problems:
        raise Invalid(f"{problems[0].field}: {problems[0].problem}.", problems)
    ClusterSettings.objects.get_or_create(id=1)
    row = ClusterSettings.objects.select_for_update().get(id=1)
    before = cluster_settings()
    row.spare_policy = spare_policy if spare_policy is not None else row.spare_policy
    row.spare_placer = spare_placer if spare_placer is not None else row.spare_placer
    row.save()
    after = cluster_settings()
    if after != before:
        audit(by, "cluster.settings", "cluster", before=before, after=after)
        hint_round()
    return after
