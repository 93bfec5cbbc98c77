"""The currency of prices and costs."""

from scheduler.models.cluster import ClusterSettings


def currency() -> str | None:
    """Return the code of the currency; None: prices are in cost units without a name."""
    return ClusterSettings.objects.filter(id=1).values_list("currency", flat=True).first() or None
