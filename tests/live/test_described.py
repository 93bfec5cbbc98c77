"""What is described is what there is; each message that a live test receives is held to it as well."""

import inspect
import re
from typing import Any

from controlplane.event_stream import ENDS
from controlplane.live import PASSED_ON, LiveConsumer
from tests.live.described import DOCUMENT, MESSAGES


def said_on(channel: str, action: str) -> set[str]:
    """The names of the messages that the server sends, or receives, there."""
    return {
        reference["$ref"].rsplit("/", 1)[1]
        for operation in DOCUMENT["operations"].values()
        if operation["action"] == action and operation["channel"]["$ref"] == f"#/channels/{channel}"
        for reference in operation["messages"]
    }


def test_the_live_stream_says_what_is_described():
    sent = {name.removeprefix("live_") for name in dir(LiveConsumer) if name.startswith("live_")}
    sent |= {name.removeprefix("live.") for name in PASSED_ON}
    assert said_on("live", "send") == sent | {"hello", "pong"}


def test_the_live_stream_hears_what_is_described():
    cases = inspect.getsource(LiveConsumer.receive_json)
    assert said_on("live", "receive") == set(re.findall(r'case \{"type": "(\w+)"', cases))


def test_a_stream_of_events_ends_for_the_reasons_that_are_described():
    assert MESSAGES["stream_end"]["payload"]["properties"]["code"]["enum"] == list(ENDS)


def test_every_reference_leads_somewhere():
    def references(value: Any):
        if isinstance(value, dict):
            if "$ref" in value:
                yield value["$ref"]
            for inner in value.values():
                yield from references(inner)
        elif isinstance(value, list):
            for inner in value:
                yield from references(inner)

    found = [one for one in references(DOCUMENT) if one.startswith("#/")]
    for reference in found:
        place = DOCUMENT
        for word in reference.removeprefix("#/").split("/"):
            place = place[word]
    assert len(found) > len(MESSAGES)
