"""Read files in YAML or JSON as jobs' files are read: a key that stands twice is a mistake there, too."""

from __future__ import annotations

from typing import Any

import yaml

from allot import yaml_text
from scheduler.simulation.errors import InputError


def only_document(name: str, text: str) -> Any:
    """Return what a text says, None if nothing; raise InputError with the line where it cannot be read."""
    try:
        documents = list(yaml_text.documents(text))
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 0
        is_yaml = "" if isinstance(error, yaml_text.Refused) else "is not YAML: "
        raise InputError(f"{name}:{line}: {is_yaml}{error.problem or error.context}") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise InputError(f"{name}: is not YAML: {error}") from None
    if len(documents) > 1:
        raise InputError(f"{name}: has {len(documents)} documents; it must have one")
    return documents[0] if documents else None
