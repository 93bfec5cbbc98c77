"""The committed description of the API, read once a run."""

from pathlib import Path
from typing import Any

import yaml

COMMITTED = Path(__file__).resolve().parents[2] / "docs" / "api" / "openapi.yaml"
DESCRIPTION: dict[str, Any] = yaml.load(COMMITTED.read_text(), Loader=yaml.CSafeLoader)
