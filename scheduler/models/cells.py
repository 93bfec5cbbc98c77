"""How GPUs are divided by cells: every specification that ever was in force."""

from django.db import models


class CellSpecification(models.Model):
    """Appended, never changed; the newest version is in force, and before the first GPUs are only counted."""

    version = models.PositiveBigIntegerField(primary_key=True)
    #: The document (`core.cells.document`) as JSON text, so that its types stay in the operator's order.
    document = models.TextField()
    changed_at = models.DateTimeField()
    #: As in events: "user olga".
    changed_by = models.CharField(max_length=80)
