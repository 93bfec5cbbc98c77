"""Two jobs that insist on the same port are not put on one node, whoever they belong to."""

import json

import pytest
from django.core.management import call_command

from scheduler.core.model.plan import Reason, Tier
from scheduler.jobspec import parse
from scheduler.jobspec.shape import stored_shape
from scheduler.models import Attempt, Explanation, Round
from scheduler.rounds.fixed_ports import with_ports_named
from scheduler.rounds.preview import preview
from scheduler.rounds.run import run_round
from tests.scheduler.builders import make_job, make_node, make_tenant, make_vc

pytestmark = pytest.mark.django_db


@pytest.fixture
def vc():
    """Four GPUs on one node, for the jobs of two tenants."""
    node = make_node(gpus=4)
    members = [make_tenant("vision"), make_tenant("speech")]
    return node, make_vc("shared", members=members, guaranteed={"V100": 4}), members


def listening(vc, tenant, *numbers, **spec):
    job = make_job(tenant=tenant, virtual_cluster=vc, **spec)
    job.spec["ports"] = [{"name": f"p{number}", "port": number} for number in numbers]
    job.shape["ports"] = list(numbers)
    job.save()
    return job


def test_a_job_does_not_come_to_a_node_where_another_listens_at_its_port(vc):
    node, shared, (vision, speech) = vc
    first = listening(shared, vision, 8888)
    run_round()
    second, third = listening(shared, speech, 8888), listening(shared, speech, 9999)
    number = run_round()
    assert first.attempts.count() == third.attempts.count() == 1
    assert second.attempts.count() == 0
    (reason,) = Explanation.objects.get(job=second).reasons
    assert reason["code"] == "port_in_use"
    assert f"job {first.id} listens at port 8888 on {node.name}" in reason["message"]
    other = make_node(gpus=1)
    run_round()
    assert second.attempts.get().parts.get().node == other
    call_command("replay_round", number)


def test_of_two_that_come_in_the_same_round_one_waits_for_the_next(vc):
    _, shared, (vision, speech) = vc
    jobs = [listening(shared, vision, 8888), listening(shared, speech, 7777, 8888)]
    record = Round.objects.get(number=run_round())
    assert Attempt.objects.count() == record.started == 1
    run_round()
    assert Attempt.objects.count() == 1
    waiting = next(job for job in jobs if not job.attempts.exists())
    assert Explanation.objects.get(job=waiting).reasons[0]["code"] == "port_in_use"


def test_replicas_of_one_job_with_a_fixed_port_are_not_put_on_one_node(vc):
    _, shared, (vision, _) = vc
    job = listening(shared, vision, 8888, replicas=2)
    run_round()
    assert not job.attempts.exists()
    (reason, *_) = Explanation.objects.get(job=job).reasons
    assert reason["code"] == "exceeds_constraint"
    assert "fixed port 8888" in reason["message"]
    assert reason["hint"].endswith("or leave the port's number out: then the node chooses one.")
    checked = parse(
        {
            "name": "x",
            "virtual_cluster": "shared",
            "tasks": [{"name": "main", "replicas": 2, "resources": {"gpu": 1}, "command": ["true"]}],
            "ports": [{"name": "page", "port": 8889}],
        }
    )
    assert [said.code for said in preview(checked.core_job(tenant="speech"), checked)][:1] == [
        "exceeds_constraint"
    ]
    make_node(gpus=1)
    number = run_round()
    parts = job.attempts.get().parts.all()
    assert len({part.node_id for part in parts}) == 2
    call_command("replay_round", number)


def test_where_no_job_has_a_fixed_port_none_is_looked_for(vc, django_assert_num_queries):
    reasons = {1: (Reason(code="candidate_nodes", tier=Tier.CAPACITY, message="It waits."),)}
    with django_assert_num_queries(0):
        assert with_ports_named(reasons, ()) == reasons
    with django_assert_num_queries(1):
        with_ports_named(reasons, [1])


def test_a_preview_knows_of_ports_that_are_in_use(vc):
    node, shared, (vision, _) = vc
    first = listening(shared, vision, 8888)
    run_round()
    spec = {"name": "x", "virtual_cluster": "shared", "gpus": 1, "command": ["true"]}

    def would_wait(port):
        checked = parse(spec | {"ports": [{"name": "page", "port": port}]})
        return [reason.message for reason in preview(checked.core_job(tenant="speech"), checked)]

    assert would_wait(None) == would_wait(8889) == []
    (message,) = would_wait(8888)
    assert f"job {first.id} listens at port 8888 on {node.name}" in message


def test_a_specification_states_its_fixed_ports_for_rounds():
    ports = [{"name": "b", "port": 9000}, {"name": "a", "port": 8000}, "notebook"]
    spec = parse({"name": "x", "gpus": 2, "command": ["true"], "ports": ports, "trial": {"seconds": 60}})
    shape = spec.shape()
    assert stored_shape(json.loads(json.dumps(shape))).ports == (8000, 9000)
    assert stored_shape(shape["after_trial"]).ports == (8000, 9000)
