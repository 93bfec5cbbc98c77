"""The messages: what one side writes the other reads, and anything else is named."""

from __future__ import annotations

import json
from typing import Any

import pytest

from nodeagent.messages import (
    DesiredState,
    GpuSample,
    Inventory,
    InventoryGpu,
    LogBatch,
    LogChunk,
    MessageError,
    PartReport,
    ProgressLine,
    Report,
    decode,
    encode,
)
from tests.agent.builders import make_part, shell

REPORT = Report(
    protocol=1,
    boot="b",
    generation=3,
    parts=(
        PartReport(
            attempt=1,
            state="exited",
            exit_code=1,
            category="user_error",
            message="ValueError: é",
            progress=(ProgressLine(sequence=1, at=2.0, step=3, values={"loss": 0.5}),),
        ),
    ),
    inventory=Inventory(
        gpu_model="V100",
        gpus=(InventoryGpu(index=0, uuid="GPU-0", memory_bytes=1),),
        cpus=2.0,
        memory_bytes=3,
        address="10.0.0.1",
        agent_version="0.1.0",
        isolation={"cpu": True},
    ),
    samples=(GpuSample(index=0, utilisation_percent=1.5, memory_used_bytes=2),),
)
DESIRED = DesiredState(
    generation=4,
    lease_seconds=20.0,
    report_seconds=3.0,
    parts=(make_part(shell("true")),),
    want_inventory=True,
)
LOGS = LogBatch(attempt=1, rank=0, chunks=(LogChunk(sequence=0, at=1.0, text="x"),))


@pytest.mark.parametrize("message", [REPORT, DESIRED, LOGS])
def test_there_and_back(message: Any) -> None:
    assert decode(type(message), json.loads(json.dumps(encode(message)))) == message


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"boot": 3}, "boot: must be of type str"),
        ({"generation": True}, "generation: must be of type int"),
        ({"generation": "3"}, "generation: must be of type int"),
        ({"parts": {}}, "parts: must be a list"),
        ({"parts": [{"attempt": 1}]}, "parts.0.state: is missing"),
        ({"parts": [{"attempt": 1, "state": "gone"}]}, "parts.0.state: must be one of 'preparing'"),
        ({"inventory": []}, "inventory: must be an object"),
    ],
)
def test_what_is_wrong_is_named(change: dict[str, Any], problem: str) -> None:
    with pytest.raises(MessageError) as caught:
        decode(Report, {**encode(REPORT), **change})
    assert problem in str(caught.value)


def test_what_a_newer_side_says_beyond_this_one_is_passed_over() -> None:
    message = encode(REPORT)
    newer = {"extra": 1, "parts": [{**message["parts"][0], "category": "too_hot", "extra": {}}]}
    part = decode(Report, {**message, **newer}).parts[0]
    assert (part.category, part.message) == ("", REPORT.parts[0].message)
    with pytest.raises(MessageError, match="unknown field 'extra'"):
        decode(Report, {**message, "extra": 1}, is_strict=True)
    with pytest.raises(MessageError, match=r"parts.0.category: must be one of"):
        decode(Report, {**message, "parts": [{**message["parts"][0], "category": "too_hot"}]}, is_strict=True)


def test_defaults_are_left_out() -> None:
    assert encode(Report(protocol=1, boot="b", generation=0)) == {"protocol": 1, "boot": "b", "generation": 0}
