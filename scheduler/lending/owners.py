"""Who may act for a virtual cluster in the market, and who sees its account and rules."""

from django.db.models import Count, Q, QuerySet

from tenants.errors import NotAllowed
from tenants.models import Role, VirtualCluster
from tenants.selectors import RANK, Viewer


def virtual_clusters_of(viewer: Viewer) -> QuerySet[VirtualCluster]:
    """Return those of which the viewer's tenants are members; all for operators."""
    if viewer.is_operator:
        return VirtualCluster.objects.all()
    return VirtualCluster.objects.filter(members__tenant__in=list(viewer.roles)).distinct()


def acts_for(viewer: Viewer) -> QuerySet[VirtualCluster]:
    """Return those for which the viewer may offer, take and set rules.

    These are the virtual clusters whose only member is a tenant of which he is an admin: of several members
    none may give away what is the others' too. Operators may act for all.
    """
    if viewer.is_operator:
        return VirtualCluster.objects.all()
    led = [tenant for tenant, role in viewer.roles.items() if RANK[role] >= RANK[Role.ADMIN]]
    counted = VirtualCluster.objects.annotate(
        member_count=Count("members"), led_count=Count("members", filter=Q(members__tenant__in=led))
    )
    return counted.filter(member_count=1, led_count=1)


def require_owner(by: Viewer, virtual_cluster: VirtualCluster) -> None:
    """Raise NotAllowed unless the viewer may act for the virtual cluster."""
    if by.is_operator or acts_for(by).filter(id=virtual_cluster.id).exists():
        return
    members = list(virtual_cluster.members.values_list("tenant__name", flat=True))
    if len(members) == 1:
        # A stranger does not learn whose it is.
        tenant = f"tenant {members[0]}" if members[0] in by.tenant_names else "its tenant"
        whose = f"admins of {tenant}, and operators, act"
    else:
        whose = f"operators act: it has {len(members) or 'no'} members"
    raise NotAllowed(f"In the market, for virtual cluster {virtual_cluster.name} only {whose}.")
