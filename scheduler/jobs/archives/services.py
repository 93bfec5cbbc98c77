"""Archives of working folders: accepted from members, and removed when no job needs them any more."""

from collections.abc import Collection
from datetime import timedelta
from pathlib import Path
from typing import IO

from django.conf import settings
from django.db import transaction
from django.db.models import Exists, OuterRef, QuerySet, Sum

from scheduler.core.model.lifecycle import ATTEMPT_LIVE, JOB_FINAL
from scheduler.jobs.archives.storing import Upload, archive_path, remove_strays
from scheduler.models.archives import Archive
from scheduler.models.attempts import AttemptPart
from scheduler.models.jobs import Job
from scheduler.models.nodes import Node
from scheduler.wiring.clock import database_now
from tenants.errors import Conflict, NoSpace, QuotaExceeded
from tenants.models import Role, Tenant
from tenants.selectors import Viewer

#: Between its upload and the submission of the job, an archive is never removed to make room.
_SPARED = timedelta(hours=1)


def archive_store(
    *, viewer: Viewer, tenant: Tenant, digest: str, body: IO[bytes], declared_bytes: int
) -> tuple[Archive, bool]:
    """Store an archive that comes piece by piece; return it, and whether it is new.

    One that is there already is not read. Raises TooLarge, QuotaExceeded, NoSpace and Invalid, also where the
    body was cut off; nothing is stored then.
    """
    viewer.require(tenant, Role.MEMBER)
    known = archive_stored(tenant.id, digest)
    if known is not None:
        Archive.objects.filter(id=known.id).update(used_at=database_now())
        return known, False
    with Upload(digest, declared_bytes) as upload:
        _make_room(tenant, declared_bytes)
        size, holds = upload.receive(body)
        with transaction.atomic():
            # Two uploads at once must not both fit into the same room.
            Tenant.objects.select_for_update(no_key=True).get(pk=tenant.pk)
            _make_room(tenant, size)
            now = database_now()
            archive, _ = Archive.objects.update_or_create(
                tenant=tenant,
                digest=digest,
                defaults={
                    "bytes": size,
                    "files": holds.files,
                    "unpacked_bytes": holds.unpacked_bytes,
                    "uploaded_by": viewer.user,
                    "uploaded_at": now,
                    "used_at": now,
                    "removed_at": None,
                },
            )
            # With the row locked: one that was about to be removed is removed before this.
            upload.keep(archive_path(tenant.id, digest))
    return archive, True


def archive_stored(tenant_id: int, digest: str) -> Archive | None:
    """Return the tenant's archive of that digest, if its bytes are there."""
    archive = Archive.objects.filter(tenant=tenant_id, digest=digest, removed_at=None).first()
    return archive if archive is not None and archive_path(tenant_id, digest).is_file() else None


def archives_use(archive_ids: Collection[int]) -> None:
    """Note that jobs name these archives, which are not removed while the transaction lasts."""
    stored = Archive.objects.filter(id__in=archive_ids, removed_at=None)
    if archive_ids and stored.update(used_at=database_now()) < len(archive_ids):
        raise Conflict("The archive in code.archive was removed just now. Upload it again.")


def archive_for_node(node: Node, attempt: int) -> Path | None:
    """Return the archive of an attempt that has a part on the node and has not ended; None: there is none."""
    part = (
        AttemptPart.objects.filter(attempt_id=attempt, node=node, attempt__state__in=ATTEMPT_LIVE)
        .exclude(attempt__job__archive=None)
        .select_related("attempt__job__archive")
        .first()
    )
    archive = None if part is None else part.attempt.job.archive
    return None if archive is None else archive_path(archive.tenant_id, archive.digest)


def prune_archives() -> None:
    """Remove archives that no unfinished job needs and that were not used for long; and files that are not
    archives.
    """
    old = database_now() - timedelta(days=settings.CONFIG.archive_days_kept)
    for archive in _unneeded(Archive.objects.filter(used_at__lt=old)):
        _remove(archive)
    stored = Archive.objects.filter(removed_at=None).values_list("tenant_id", "digest")
    remove_strays({archive_path(*one) for one in stored})


def _make_room(tenant: Tenant, more: int) -> None:
    """Remove archives that no job needs until this many more bytes fit; raise where they cannot."""
    config = settings.CONFIG
    of_tenant = Archive.objects.filter(tenant=tenant)
    if not _shrink(of_tenant, config.archive_bytes_of_tenant - more):
        raise QuotaExceeded(
            f"Tenant {tenant.name} may have archives of {config.archive_bytes_of_tenant:,} bytes in all"
            " (ALLOT_ARCHIVE_BYTES_OF_TENANT), and unfinished jobs need those that are stored. Wait until"
            " some have ended, or upload less."
        )
    if not _shrink(Archive.objects.all(), config.archive_bytes_of_all - more):
        raise NoSpace(
            f"The server keeps archives of {config.archive_bytes_of_all:,} bytes in all"
            " (ALLOT_ARCHIVE_BYTES_OF_ALL), and jobs need what is there. Tell an operator."
        )


def _shrink(archives: QuerySet[Archive], most: int) -> bool:
    """Remove the least recently used until at most `most` bytes are left; return whether that succeeded."""
    stored = archives.filter(removed_at=None).aggregate(sum=Sum("bytes"))["sum"] or 0
    if stored > most:
        for archive in _unneeded(archives.filter(used_at__lt=database_now() - _SPARED)):
            stored -= archive.bytes * _remove(archive)
            if stored <= most:
                break
    return bool(stored <= most)


def _unneeded(archives: QuerySet[Archive]) -> QuerySet[Archive]:
    needed = Job.objects.filter(archive=OuterRef("pk")).exclude(state__in=JOB_FINAL)
    return archives.filter(~Exists(needed), removed_at=None).order_by("used_at", "id")


@transaction.atomic
def _remove(archive: Archive) -> bool:
    """Remove the bytes, unless a job has come to need them; return whether they were removed."""
    same = Archive.objects.filter(id=archive.id, used_at=archive.used_at)
    if _unneeded(same).select_for_update(no_key=True).first() is None:
        return False
    archive_path(archive.tenant_id, archive.digest).unlink(missing_ok=True)
    same.update(removed_at=database_now())
    return True
