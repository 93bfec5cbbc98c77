"""Rules by which the site distinguishes its own failures."""

from django.db import models
from django.db.models import Q


class FailureRules(models.Model):
    """One row, or none while there are no rules: they are changed all at once, since their order counts."""

    #: Each as it was given, in the form of `failures.services`.
    rules = models.JSONField(default=list)
    changed_at = models.DateTimeField()
    changed_by = models.CharField(max_length=200)

    class Meta:
        constraints = [models.CheckConstraint(condition=Q(id=1), name="failure_rules_are_one_row")]
