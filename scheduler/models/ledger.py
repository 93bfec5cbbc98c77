"""The ledger: what was bid, won, paid, traded, lent and taken, line by line, for good."""

from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import BrinIndex, GinIndex
from django.db import models
from django.db.models import Q


class LedgerLine(models.Model):
    """One line, as its round decided it or as a person did it. Fields: docs/ledger.md.

    Append-only: a trigger refuses every UPDATE, and every DELETE of a line that is not older than the setting
    `allot.ledger_kept_since` of the transaction, which only `ledger.services.prune_ledger` sets. Names, not
    foreign keys: a line outlives its objects.
    """

    at = models.DateTimeField()
    #: Null for what a person did.
    round_number = models.PositiveBigIntegerField(null=True)
    #: The virtual cluster, "spare" or "market".
    view = models.CharField(max_length=63)
    #: Among the lines of its round and view.
    position = models.PositiveIntegerField(default=0)
    kind = models.CharField(max_length=20)
    #: Tenants; in the market virtual clusters. Empty: all in the view.
    party = models.CharField(max_length=63, blank=True)
    counterparty = models.CharField(max_length=63, blank=True)
    jobs = ArrayField(models.BigIntegerField(), default=list)
    gpus = models.JSONField(default=dict)
    given = models.JSONField(default=dict)
    #: In the market in millicredits, as everywhere inside.
    price = models.FloatField(null=True)
    seconds = models.FloatField(null=True)
    rho_before = models.FloatField(null=True)
    rho_after = models.FloatField(null=True)
    message = models.TextField(blank=True)
    details = models.JSONField(default=dict)
    #: Empty for lines of a round; else who did it, such as "user vera".
    person = models.CharField(max_length=160, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["round_number", "view", "position"],
                condition=Q(round_number__isnull=False),
                name="one_line_per_position",
            ),
        ]
        indexes = [
            models.Index(fields=["view", "-id"], name="ledger_by_view"),
            models.Index(fields=["kind", "-id"], name="ledger_by_kind"),
            models.Index(fields=["party", "-id"], name="ledger_by_party"),
            models.Index(fields=["counterparty", "-id"], name="ledger_by_counterparty"),
            GinIndex(fields=["jobs"], name="ledger_by_job"),
            BrinIndex(fields=["at"], name="ledger_by_age"),
        ]
