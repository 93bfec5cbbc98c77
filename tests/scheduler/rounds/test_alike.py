"""Of one user's long queue a round reads no more than could start."""

from datetime import timedelta

import pytest
from django.utils import timezone

from scheduler.core.model import codec
from scheduler.core.round.decide import decide
from scheduler.jobspec import parse
from scheduler.models import Explanation, Job, Node, Round
from scheduler.rounds import alike, preview
from scheduler.rounds.run import run_round
from scheduler.rounds.snapshot import ForRound, read_for_round, read_snapshot
from tests.scheduler.builders import make_job, make_member, make_node, make_tenant, make_vc

pytestmark = pytest.mark.django_db
#: Of eight GPUs, and what a round reads beyond those that fit.
SEEN = 8 + 101
#: How long the queue is. That is long enough only in these tests, which saves them most of their time.
JOBS = 300


@pytest.fixture
def crowd(monkeypatch):
    """A long queue of one user's jobs that are alike, and another user's job behind."""
    monkeypatch.setattr(alike, "LONG", JOBS - 50)
    make_node(gpus=8)
    tenant = make_tenant("vision")
    vc = make_vc("research", members=[tenant], guaranteed={"V100": 8})
    user, long_ago = make_member(tenant), timezone.now() - timedelta(minutes=5)
    first = make_job(
        tenant=tenant, virtual_cluster=vc, submitted_by=user, gpus=1, submitted_at=long_ago, name="run-0"
    )
    values = {field.attname: getattr(first, field.attname) for field in Job._meta.concrete_fields}
    del values["id"]
    rows = [Job(**{**values, "name": f"run-{number}"}) for number in range(1, JOBS)]
    jobs = [first, *Job.objects.bulk_create(rows)]
    other = make_job(tenant=tenant, virtual_cluster=vc, gpus=1, name="other")
    return jobs, other


def test_a_round_reads_no_more_of_one_users_jobs_than_could_start_and_decides_the_same(crowd):
    jobs, other = crowd
    whole, (seen, left_out, _) = read_snapshot(1), read_for_round(1)
    assert [job.id for job in seen.jobs] == [*(job.id for job in jobs[:SEEN]), other.id]
    assert list(left_out) == [job.id for job in jobs[SEEN:]]
    assert len(whole.jobs) == JOBS + 1
    assert decide(seen).actions == decide(whole).actions


def test_those_that_are_left_out_keep_a_reason_and_count_as_waiting(crowd):
    jobs, other = crowd
    number = run_round()
    record = Round.objects.get(number=number)
    assert (record.started, record.waiting) == (8, JOBS + 1 - 8)
    assert len(codec.loads_snapshot(bytes(record.snapshot)).jobs) == SEEN + 1
    codes = {each.job_id: each.reasons[0]["code"] for each in Explanation.objects.all()}
    assert {codes[job.id] for job in jobs[SEEN:]} == {"behind_own"}
    assert {codes[job.id] for job in (*jobs[8:SEEN], other)} == {"vc_guarantee_in_use"}


def test_a_preview_reads_what_a_round_reads_and_says_what_the_whole_queue_would(crowd, monkeypatch):
    spec = parse({"name": "run-last", "virtual_cluster": "research", "gpus": 1, "command": "true"})
    decided = []

    def noting(facts, **options):
        decided.append(facts)
        return decide(facts, **options)

    monkeypatch.setattr(preview, "decide", noting)
    said = preview.preview(spec.core_job(tenant="vision"), spec)
    monkeypatch.setattr(preview, "read_for_round", lambda number: ForRound(read_snapshot(number), [], []))
    assert [reason.code for reason in said] == ["vc_guarantee_in_use"]
    assert preview.preview(spec.core_job(tenant="vision"), spec) == said
    assert [len(facts.jobs) for facts in decided] == [SEEN + 2, JOBS + 2]


def test_one_that_is_not_like_the_others_is_read(crowd):
    jobs, _ = crowd
    held, short, dear, ran = jobs[-4:]
    Job.objects.filter(id=held.id).update(held=True)
    Job.objects.filter(id=short.id).update(time_limit_seconds=60.0)
    Job.objects.filter(id=dear.id).update(priority=1)
    Job.objects.filter(id=ran.id).update(waits_since=timezone.now())
    read = {job.id for job in read_for_round(1).facts.jobs}
    assert {held.id, short.id, dear.id, ran.id} <= read
    assert len(read) == SEEN + 5


@pytest.mark.parametrize(("policy", "is_cut"), [("fifo", True), ("las", True), ("themis", False)])
def test_only_policies_that_take_jobs_by_arrival_are_shown_fewer(crowd, policy, is_cut):
    (vc,) = {job.virtual_cluster for job in crowd[0]}
    vc.policy = policy
    vc.save()
    assert bool(read_for_round(1).left_out) is is_cut


def test_a_user_with_a_job_that_waits_for_its_namesakes_has_all_jobs_read(crowd):
    jobs, _ = crowd
    Job.objects.filter(id=jobs[-1].id).update(shape={**jobs[-1].shape, "singleton": True})
    assert not read_for_round(1).left_out


def test_where_names_are_compared_differently_named_jobs_are_not_alike(crowd):
    make_vc("others", policy="pai")
    assert not read_for_round(1).left_out
    Job.objects.filter(name__startswith="run-").update(name="run")
    assert len(read_for_round(1).left_out) == JOBS - SEEN


def test_of_jobs_without_gpus_all_are_read(crowd):
    """GPUs do not say how many of them there is room for."""
    make_node(gpus=0, cpus=4)
    Node.objects.update(cpus=4)
    shape = {"tasks": [[1, 0, 2.0, 0]], "topology": None, "throughput": {}}
    Job.objects.update(gpus=0, shape=shape)
    read = read_for_round(1)
    assert (len(read.facts.jobs), list(read.left_out)) == (JOBS + 1, [])
    assert sum(len(action.jobs) for action in decide(read.facts).actions) == 2 * 2
