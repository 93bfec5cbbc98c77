"""docs/api/asyncapi.yaml: the live tests hold each message that the server sends to it."""

from pathlib import Path
from typing import Any

import jsonschema
import yaml

from tests.api.description import DESCRIPTION

_FILE = Path(__file__).resolve().parents[2] / "docs" / "api" / "asyncapi.yaml"
DOCUMENT: dict[str, Any] = yaml.safe_load(_FILE.read_text())
MESSAGES: dict[str, dict[str, Any]] = DOCUMENT["components"]["messages"]
_ELSEWHERE = "openapi.yaml#/components/schemas/"


def fields_of(name: str) -> set[str]:
    """The fields that a message has, as the document or the API's description says."""
    payload = MESSAGES[name]["payload"]
    if "$ref" in payload:
        payload = DESCRIPTION["components"]["schemas"][payload["$ref"].removeprefix(_ELSEWHERE)]
    return set(payload["properties"])


def check(name: str, content: dict[str, Any]) -> None:
    """Fail where a message is not as the document describes it."""
    assert name in MESSAGES, f"{name} is not in {_FILE.name}"
    if "$ref" in MESSAGES[name]["payload"]:
        assert set(content) == fields_of(name)
    else:
        jsonschema.validate(content, MESSAGES[name]["payload"])
