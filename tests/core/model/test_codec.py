"""Rounds stored by earlier versions are read and decided again."""

from __future__ import annotations

import zlib
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from scheduler.core.model import codec
from scheduler.core.model.plan import Plan
from scheduler.core.model.snapshot import JobId, Snapshot
from scheduler.core.round.decide import decide
from tests.builders import make_job, make_node, make_running, make_snapshot

#: A round as it was stored when policies and placers with parameters were texts, `name:parameter=value,...`;
#: but what Tiresias remembers is what it has remembered since it follows its authors' order within a queue.
STORED = Path(__file__).with_name("round_with_texts.json")


@pytest.fixture
def facts() -> Snapshot:
    stored = msgspec.json.decode(STORED.read_bytes(), type=dict[str, msgspec.Raw])
    return codec.loads_snapshot(zlib.compress(bytes(stored["snapshot"])))


@pytest.fixture
def plan() -> Plan:
    stored = msgspec.json.decode(STORED.read_bytes(), type=dict[str, msgspec.Raw])
    return codec.loads_plan(zlib.compress(bytes(stored["plan"])))


def test_a_round_with_plug_ins_as_texts_is_decided_again_bit_for_bit(facts: Snapshot, plan: Plan) -> None:
    assert facts.virtual_clusters[0].placer == "delay:relax_after_seconds=600"
    assert codec.plan_json(decide(facts)) == codec.plan_json(plan)
    assert codec.loads_snapshot(codec.dumps_snapshot(facts)) == facts


def test_their_names_and_parameters_decide_the_same(facts: Snapshot, plan: Plan) -> None:
    vc = replace(
        facts.virtual_clusters[0],
        policy="fifo",
        policy_parameters={"backfill": False},
        placer="delay",
        placer_parameters={"relax_after_seconds": 600},
    )
    now = replace(
        facts,
        virtual_clusters=(vc,),
        spare_policy="tiresias",
        spare_policy_parameters={"thresholds": [60, 600], "discipline": "las"},
        spare_placer="delay",
        spare_placer_parameters={"relax_after_seconds": 5},
    )
    assert codec.plan_json(decide(now)) == codec.plan_json(plan)
    assert decide(replace(now, virtual_clusters=(replace(vc, placer_parameters={}),))) != plan
    assert decide(replace(now, spare_policy="fifo", spare_policy_parameters={})) != plan


def test_what_is_said_of_single_jobs_of_an_allocation_is_stored_and_read() -> None:
    both = replace(
        make_running(2, [100]),
        jobs=(JobId(2), JobId(10)),
        speeds={JobId(10): 0.5, JobId(2): 0.75},
        joined={JobId(10): 7.0},
        leaving=(JobId(3),),
    )
    facts = make_snapshot(nodes=[make_node(1)], jobs=[make_job(2), make_job(3), make_job(10)], running=[both])
    stored = codec.dumps_snapshot(facts)
    assert codec.loads_snapshot(stored) == facts
    turned = replace(both, speeds=dict(reversed(both.speeds.items())))
    assert codec.dumps_snapshot(replace(facts, running=(turned,))) == stored
