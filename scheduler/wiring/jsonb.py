"""Values of jsonb columns that a raw cursor read."""

import json
from typing import Any


def read_jsonb(value: Any) -> Any:
    """Return the value of a jsonb column, which Django returns as text; json ones, and NULL, are values."""
    return json.loads(value) if isinstance(value, str) else value
