"""The data set of a traced job: an object, or text such as name=imagenet|gib=140|mib_per_second=200."""

from __future__ import annotations

from typing import Any

from scheduler.core.model import wording
from scheduler.core.model.data_sets import MOST_BANDWIDTH, MOST_BYTES, NAME, DataSet
from scheduler.simulation.traces import fields
from scheduler.simulation.traces.fields import BadField, shown

_FIELDS = ("name", "gib", "mib_per_second")


def told(value: Any) -> DataSet | None:
    """Return the data set that a job states, or None. Raises BadField."""
    if isinstance(value, str):
        value = fields.pairs("data", value)
    if not isinstance(value, dict) or not set(value) <= set(_FIELDS):
        raise BadField(
            "data", f"{shown(value)} is not a list like name=imagenet|gib=140 of {wording.either(_FIELDS)}"
        )
    if not value:
        return None
    if not NAME.fullmatch(str(value.get("name", ""))) or "gib" not in value:
        raise BadField(
            "data",
            f"{shown(value)} has no name of letters and digits, or no gib, as in name=imagenet|gib=140",
        )
    gib, rate = (fields.number("data", value.get(name, 0)) for name in _FIELDS[1:])
    if not (0 <= gib * 2**30 <= MOST_BYTES and 0 <= rate * 2**20 <= MOST_BANDWIDTH):
        raise BadField("data", f"{shown(value)} has a number below 0, or an implausibly large one")
    return DataSet(name=str(value["name"]), size_bytes=round(gib * 2**30), bandwidth=rate * 2**20)


def written(data: DataSet | None) -> str | None:
    """Return a data set as it is written in a trace."""
    if data is None:
        return None
    return f"name={data.name}|gib={data.size_bytes / 2**30!r}|mib_per_second={data.bandwidth / 2**20!r}"
