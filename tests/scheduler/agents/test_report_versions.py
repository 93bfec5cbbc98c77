"""Agents of other versions: who is understood, and what the others are told."""

import pytest

from nodeagent.messages import OLDEST_PROTOCOL, PROTOCOL, MessageError, Report
from scheduler.agents.services.reports import report_read


def test_what_a_newer_agent_of_the_same_protocol_adds_is_passed_over():
    report = report_read({"protocol": PROTOCOL, "boot": "b", "generation": 1, "weather": {"sunny": True}})
    assert report == Report(protocol=PROTOCOL, boot="b", generation=1)


@pytest.mark.parametrize(("protocol", "outdated"), [(OLDEST_PROTOCOL - 1, "agent"), (PROTOCOL + 1, "server")])
def test_another_protocol_is_named_before_any_field_that_it_lacks(protocol: int, outdated: str):
    with pytest.raises(MessageError, match=f"not {protocol}; update the {outdated}"):
        report_read({"protocol": protocol})
