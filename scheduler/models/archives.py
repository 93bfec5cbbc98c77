"""Archives of working folders that tenants have uploaded."""

from django.conf import settings
from django.db import models

from tenants.models import Tenant


class Archive(models.Model):
    """An archive by its content. Each tenant has its own and does not learn what others upload."""

    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, related_name="archives", db_index=False)
    #: SHA-256 of its bytes, in hex.
    digest = models.CharField(max_length=64)
    bytes = models.PositiveBigIntegerField()
    #: What it unpacks to: files and links, and their bytes.
    files = models.PositiveIntegerField()
    unpacked_bytes = models.PositiveBigIntegerField()
    uploaded_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    uploaded_at = models.DateTimeField()
    #: When it was uploaded, or a job that names it was submitted.
    used_at = models.DateTimeField()
    #: Its bytes are no longer there; jobs that ended may still name it.
    removed_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["tenant", "digest"], name="archive_of_tenant_once"),
        ]
        indexes = [
            models.Index(
                fields=["used_at"], condition=models.Q(removed_at=None), name="archive_stored_by_use"
            ),
        ]
