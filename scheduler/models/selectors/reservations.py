"""Reservations: those that last, and those that a viewer may see."""

from django.db.models import Q, QuerySet

from scheduler.models.reservations import Reservation
from scheduler.wiring.clock import database_now
from tenants.models import Role
from tenants.selectors import Viewer


def lasting_reservations() -> QuerySet[Reservation]:
    """Return those that are announced or in force."""
    return Reservation.objects.filter(cancelled_at=None, ends_at__gt=database_now())


def reservations_visible(by: Viewer) -> QuerySet[Reservation]:
    """Return what a user may see: operators all, admins their tenants', others what they may use."""
    rows = Reservation.objects.select_related("tenant", "user", "virtual_cluster")
    if by.is_operator:
        return rows
    admin_of = [held.tenant_id for held in by.held if by.may(held.tenant_id, Role.ADMIN)]
    member_of = [held.tenant_id for held in by.held]
    theirs = Q(tenant__in=member_of) & (Q(user=None) | Q(user=by.user))
    return rows.filter(Q(tenant__in=admin_of) | theirs)
