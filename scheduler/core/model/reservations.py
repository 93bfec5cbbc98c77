"""Reservations: whole nodes that only jobs of one tenant have for a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scheduler.core.model.snapshot import Job


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservation:
    """From its start to its end, only jobs that name it and may use it are on its nodes."""

    name: str
    tenant: str
    #: Names.
    nodes: tuple[str, ...]
    starts_at: float
    ends_at: float
    #: Empty: all users of the tenant; all virtual clusters.
    user: str = ""
    virtual_cluster: str = ""

    def is_for(self, job: Job) -> bool:
        """Whether a job may use its nodes: it names the reservation, and its tenant, user and virtual cluster
        are allowed.
        """
        return (
            job.reservation == self.name
            and job.tenant == self.tenant
            and self.user in ("", job.user)
            and self.virtual_cluster in ("", job.virtual_cluster)
        )

    def is_in_force(self, now: float) -> bool:
        return self.starts_at <= now < self.ends_at
