"""What the representations of all slices share: their type, and the name of others' tenants."""

from typing import Any

Representation = dict[str, Any]

#: Key under which a member sees the GPUs of all other tenants.
OTHERS = "others"
