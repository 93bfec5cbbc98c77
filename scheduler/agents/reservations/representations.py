"""Reservations as whole objects of the API."""

from datetime import datetime

from scheduler.models.reservations import Reservation
from scheduler.wiring.representation import Representation
from tenants.times import iso


def reservation(row: Reservation, now: datetime) -> Representation:
    """Return a reservation, read with its tenant, user and virtual cluster."""
    return {
        "id": row.id,
        "name": row.name,
        "state": row.state_at(now).value,
        "tenant": row.tenant.name,
        "user": row.user and row.user.username,
        "virtual_cluster": row.virtual_cluster and row.virtual_cluster.name,
        "gpu_model": row.gpu_model,
        "gpus": row.gpus,
        "nodes": row.nodes,
        "starts_at": iso(row.starts_at),
        "ends_at": iso(row.ends_at),
        "note": row.note,
        "made_by": row.made_by,
        "made_at": iso(row.made_at),
    }
