"""Specifications as rows have them: their normal form."""

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from scheduler.jobspec.fields import Fields
from scheduler.jobspec.spec import JOB, JobSpec


def stored_specification(column: Mapping[str, Any]) -> JobSpec:
    """Return the specification of a job that was read with its column."""
    return _specification_of(json.dumps(column))


# Nodes ask for the same few again and again.
@lru_cache(maxsize=4_096)
def _specification_of(text: str) -> JobSpec:
    """Return a stored normal form. One that was stored before a field existed has the field's default.

    It was checked when it was stored: what a later version would refuse is no reason to lose the job.
    """
    read: JobSpec = JOB.read_fields(Fields(json.loads(text), "", []))
    return read


def in_order(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return a stored normal form with its fields in the order of `to_dict`, which jsonb does not keep."""
    return dict(JOB.in_order(spec))
