"""What the representations of all slices share: their type, instants as text, the name of others' tenants."""

from datetime import datetime
from typing import Any

Representation = dict[str, Any]


def iso(at: datetime | None) -> str | None:
    """Return an instant as the API states it; None stays None."""
    return at.isoformat() if at is not None else None


#: Key under which a member sees the GPUs of all other tenants.
OTHERS = "others"
