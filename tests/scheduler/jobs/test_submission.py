"""The statements behind a submit: few, and right about order and limits."""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from django.contrib.postgres.fields import ArrayField
from django.db import connection, models
from django.db.models import F
from django.test.utils import CaptureQueriesContext

from scheduler.core.model.lifecycle import JobState
from scheduler.core.round.decide import decide
from scheduler.jobs.representations import new_job
from scheduler.jobs.services.control import insert_jobs, job_submit, jobs_submit_bulk
from scheduler.jobspec import JobSpec, in_order, parse
from scheduler.models import Event, Job, Node
from scheduler.rounds.snapshot import read_snapshot
from tenants.errors import Invalid, QuotaExceeded
from tenants.models import Tenant, VirtualCluster
from tenants.selectors import Viewer, viewer_of
from tests.scheduler.builders import (
    gpus_of,
    make_archive,
    make_attempt,
    make_cells,
    make_job,
    make_member,
    make_node,
    make_tenant,
    make_vc,
)

pytestmark = pytest.mark.django_db


@pytest.fixture
def member() -> Viewer:
    tenant = make_tenant("vision")
    make_node(gpus=8)
    make_vc("research", members=[tenant], guaranteed={"V100": 8})
    return viewer_of(make_member(tenant))


def spec(**fields: object) -> dict:
    return {"name": "train", "command": ["true"], "gpus": 1, **fields}


def test_a_submit_costs_few_statements_and_a_thousand_cost_no_more(
    member: Viewer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scheduler.jobs.services.submission.COUNT_KEPT_SECONDS", 1e9)
    job_submit(viewer=member, tenant=None, spec=spec())

    def statements(count: int) -> int:
        with CaptureQueriesContext(connection) as captured:
            jobs_submit_bulk(viewer=member, tenant=None, specs=[spec()] * count)
        return len(captured)

    # The queue is not counted again: savepoint, facts, insert, release.
    assert statements(2) == statements(500) <= 4


def test_each_job_of_a_bulk_is_as_if_it_were_submitted_alone(member: Viewer) -> None:
    begins = "2031-12-01T18:00:00+01:00"
    specs = [
        spec(),
        spec(name="other", labels={"team": "vision"}),
        spec(),
        spec(name="third"),
        spec(name="other", labels={"team": "vision"}),
        spec(name="held", hold=True),
        spec(name="held-too", hold=True),
        spec(name="late", begin=begins),
        spec(name="later", begin=begins),
        spec(name="soon", begin="2h"),
        spec(name="as-soon", begin="2h"),
        # JSON tells these apart, and so do the labels.
        spec(labels={"one": "1"}),
        spec(labels={"one": "true"}),
        spec(gpus=2),
    ]
    together = jobs_submit_bulk(viewer=member, tenant=None, specs=specs)
    alone = [job_submit(viewer=member, tenant=None, spec=one) for one in specs]

    def columns(jobs: list[Job]) -> list[dict[str, Any]]:
        rows = Job.objects.filter(id__in=[job.id for job in jobs]).order_by("id").values()
        for row in rows:
            del row["id"]
            submitted_at, eligible_at = row.pop("submitted_at"), row.pop("eligible_at")
            # A duration is counted from the submission.
            row["begins"] = (
                eligible_at if "late" in row["name"] else eligible_at and eligible_at - submitted_at
            )
        return list(rows)

    assert columns(together) == columns(alone)
    # What is answered and sent to pages comes from these, not from the rows.
    stored = Job.objects.filter(id__in=[job.id for job in together]).order_by("id")
    for new, row in zip(together, stored, strict=True):
        assert {**new_job(new), "spec": None} == {**new_job(row), "spec": None}
        assert list(new.spec.items()) == list(in_order(row.spec).items())


def test_jobs_that_differ_in_their_names_are_checked_once_and_equal_ones_written_once(
    member: Viewer, monkeypatch: pytest.MonkeyPatch
) -> None:
    parsed = []

    def counted(raw: object, *, where: str = "") -> JobSpec:
        parsed.append(where)
        return parse(raw, where=where)

    monkeypatch.setattr("scheduler.jobs.services.submission.parse", counted)
    named = [spec(name=f"train-{number}", command=["once"]) for number in range(20)]
    with CaptureQueriesContext(connection) as captured:
        jobs_submit_bulk(viewer=member, tenant=None, specs=[spec(command=["twice"])] * 300 + named)
    assert parsed == ["jobs.0", "jobs.300"]
    (insert,) = [one["sql"] for one in captured if "INSERT INTO scheduler_job " in one["sql"]]
    assert (insert.count("twice"), insert.count("once")) == (1, 20)


@pytest.mark.parametrize("name", [None, "", "a b", 7, ["train"], "x" * 64])
def test_a_wrong_name_is_refused_also_where_all_else_is_as_in_another_job(
    member: Viewer, name: object
) -> None:
    def fields(specs: list[object]) -> list[object]:
        with pytest.raises(Invalid) as refused:
            jobs_submit_bulk(viewer=member, tenant=None, specs=specs)
        return [replace(one, field=one.field.removeprefix(f"jobs.{len(specs) - 1}.")) for one in
                refused.value.fields]  # fmt: skip

    assert fields([spec(), spec(name=name)]) == fields([spec(name=name)]) != []
    unnamed = {key: value for key, value in spec().items() if key != "name"}
    assert fields([spec(), unnamed]) == fields([unnamed]) != []
    assert not Job.objects.exists()


def test_equal_arrays_of_a_bulk_have_numbers_of_their_own(member: Viewer) -> None:
    jobs = jobs_submit_bulk(viewer=member, tenant=None, specs=[spec(array={"indices": "0-2"})] * 2)
    assert [job.array_id for job in jobs] == [jobs[0].id] * 3 + [jobs[3].id] * 3


def test_every_column_of_a_job_is_inserted(member: Viewer, settings: Any, tmp_path: Path) -> None:
    settings.CONFIG = settings.CONFIG.model_copy(update={"archives_folder": str(tmp_path)})
    like = make_job(tenant=Tenant.objects.get(), virtual_cluster=VirtualCluster.objects.get())
    archive = make_archive(like.tenant, {"a.py": "1"}, by=like.submitted_by)
    served = make_attempt(like, gpus_of(Node.objects.get())[:1])
    given: dict[str, Any] = {"serves_id": served.id, "archive_id": archive.id, "state": JobState.RUNNING}
    other = {
        models.BooleanField: lambda field: not field.default,
        models.CharField: lambda _: "some text",
        models.DateTimeField: lambda _: datetime(2026, 12, 1, 18, 0, 0, 123_456, UTC),
        models.FloatField: lambda _: 0.5,
        models.IntegerField: lambda _: 7,
        models.JSONField: lambda _: {"k": [1, None]},
        ArrayField: lambda field: (
            [7, 8] if isinstance(field.base_field, models.IntegerField) else ["V100", 'a "name", and more']
        ),
        models.ForeignKey: lambda field: getattr(like, field.attname),
    }
    kept = {"spec", "shape"}
    # The clock says the first two; the last is there where a job has ended.
    by_itself = {"submitted_at", "eligible_at", "ended_at"}
    fields = [field for field in Job._meta.concrete_fields if not field.primary_key]
    for field in fields:
        if field.attname in kept:
            given[field.attname] = getattr(like, field.attname)
        elif field.attname not in given and field.attname not in by_itself:
            (value,) = {of for kind, of in other.items() if isinstance(field, kind)}
            given[field.attname] = value(field)
    insert_jobs([new := Job(**given)], actor="user mia")
    row = Job.objects.get(id=new.id)
    assert {name: getattr(row, name) for name in given} == given
    assert {field.attname for field in fields} - given.keys() == by_itself
    assert (row.submitted_at, row.eligible_at) == (new.submitted_at, None)


def test_what_no_cell_ever_holds_is_refused(member: Viewer) -> None:
    make_cells(
        {
            "types": {
                "SWITCH": {"of": "V100", "count": 2},
                "NODE": {"of": "SWITCH", "count": 4, "node": True},
            },
            "physical": [{"type": "NODE", "nodes": [Node.objects.get().name]}],
            "virtual_clusters": {"research": {"cells": {"SWITCH": 3}}},
        }
    )
    with pytest.raises(Invalid, match="has 2 GPUs on one node; one replica needs 3"):
        job_submit(viewer=member, tenant=None, spec=spec(gpus=3))
    assert job_submit(viewer=member, tenant=None, spec=spec(gpus=2, replicas=3)).gpus == 6
    assert job_submit(viewer=member, tenant=None, spec=spec(gpus=3, guarantee="opportunistic")).gpus == 3


def test_a_pinned_cell_is_named_by_a_guaranteed_job_of_its_owner(member: Viewer) -> None:
    make_node("node-b", gpus=8)
    make_cells(
        {
            "types": {"NODE": {"of": "V100", "count": 8, "node": True}},
            "physical": [{"type": "NODE", "nodes": [node.name]} for node in Node.objects.order_by("id")],
            "virtual_clusters": {"research": {"pinned": {"demo": "node-b"}}},
        }
    )
    job = job_submit(viewer=member, tenant=None, spec=spec(gpus=8, pinned_cell="demo"))
    assert (job.shape["pinned_cell"], job.spec["pinned_cell"]) == ("demo", "demo")
    with pytest.raises(Invalid) as refused:
        job_submit(viewer=member, tenant=None, spec=spec(pinned_cell="demmo"))
    (problem,) = refused.value.fields
    assert (problem.field, problem.expected) == ("pinned_cell", "Name demo, or none.")
    with pytest.raises(Invalid, match="All V100 cells of virtual cluster research are pinned"):
        job_submit(viewer=member, tenant=None, spec=spec(gpus=8))
    with pytest.raises(Invalid, match="an opportunistic job cannot ask for a pinned cell"):
        job_submit(viewer=member, tenant=None, spec=spec(pinned_cell="demo", guarantee="opportunistic"))


def test_nodes_are_named_that_are_there_and_can_hold_the_job(member: Viewer) -> None:
    make_node("node-b", gpus=8)
    job = job_submit(viewer=member, tenant=None, spec=spec(gpus=8, nodes={"only": ["node-b"]}))
    assert job.shape["nodes"] == job.spec["nodes"] == {"only": ["node-b"], "avoid": []}
    with pytest.raises(Invalid) as refused:
        job_submit(viewer=member, tenant=None, spec=spec(nodes={"only": ["node-b"], "avoid": ["node-bb"]}))
    (problem,) = refused.value.fields
    assert problem.field == "nodes.avoid"
    assert problem.problem == "there is no node 'node-bb' in this cluster (did you mean \"node-b\"?)"
    large = spec(gpus=8, replicas=2, nodes={"only": ["node-b"]}, guarantee="opportunistic")
    with pytest.raises(Invalid, match="there are 8 V100 for it; it needs 16") as refused:
        job_submit(viewer=member, tenant=None, spec=large)
    (problem,) = refused.value.fields
    assert (problem.field, problem.expected[:18]) == ("nodes.only", "It would fit with ")


def test_a_data_set_that_no_storage_reads_so_fast_is_refused(member: Viewer) -> None:
    Node.objects.update(storage_bandwidth=500 * 2**20, version=F("version") + 1)
    data = {"name": "imagenet", "size": "140GiB", "bandwidth": "400MiB"}
    assert job_submit(viewer=member, tenant=None, spec=spec(data=data)).shape["data"][0] == "imagenet"
    with pytest.raises(Invalid) as refused:
        job_submit(viewer=member, tenant=None, spec=spec(data={**data, "bandwidth": "600MiB"}))
    (problem,) = refused.value.fields
    assert problem.field == "data.bandwidth"
    assert "Ask for at most 500 MiB/s" in problem.expected


def test_a_round_holds_back_whom_the_storage_does_not_serve(member: Viewer) -> None:
    Node.objects.update(storage_bandwidth=500 * 2**20, version=F("version") + 1)
    reads = {"size": "140GiB", "bandwidth": "400MiB"}
    first, second = [
        job_submit(viewer=member, tenant=None, spec=spec(data={"name": name, **reads})) for name in "ab"
    ]
    plan = decide(read_snapshot(1))
    assert [action.jobs for action in plan.actions] == [(first.id,)]
    reason = plan.reasons[second.id][0]
    assert reason.code == "storage_bandwidth"
    assert "one replica reads 400 MiB/s of its data set b" in reason.message


def test_ids_follow_the_order_of_the_request(member: Viewer) -> None:
    names = [f"job-{number:03d}" for number in range(300)]
    jobs = jobs_submit_bulk(viewer=member, tenant=None, specs=[spec(name=name) for name in names])
    assert [job.id for job in jobs] == sorted(job.id for job in jobs)
    assert list(Job.objects.order_by("id").values_list("name", flat=True)) == names
    events = Event.objects.filter(kind="job.submitted").order_by("id")
    assert list(events.values_list("job_id", flat=True)) == [job.id for job in jobs]


def test_what_is_stored_equals_what_the_orm_would_store(member: Viewer) -> None:
    wanted = spec(
        name="all",
        gpus=2,
        gpu_model=["V100"],
        env={"TEXT": 'quotes " and \\ and ü'},
        priority=-3,
        time_limit="90s",
        labels={"a": "b"},
        topology={"level": "node"},
    )
    given = job_submit(viewer=member, tenant="vision", spec=wanted)
    stored = Job.objects.get(id=given.id)
    for field in Job._meta.concrete_fields:
        assert getattr(stored, field.attname) == getattr(given, field.attname), field.name


@pytest.mark.parametrize(
    "wanted",
    [
        {"throughput": {"V100": 0}},
        {"throughput": {"V100": 0, "K80": 5}, "gpu_model": ["V100"]},
    ],
)
def test_a_job_that_runs_on_no_model_is_refused(member: Viewer, wanted: dict) -> None:
    with pytest.raises(Invalid) as refused:
        job_submit(viewer=member, tenant="vision", spec=spec(**wanted))
    (field,) = refused.value.fields
    assert field.field == "throughput"
    assert "runs on no GPU model that it accepts" in field.problem
    assert "V100" in field.expected


def test_a_job_that_runs_on_one_of_its_models_is_taken(member: Viewer) -> None:
    make_node(gpu_model="K80")
    job = job_submit(viewer=member, tenant="vision", spec=spec(throughput={"V100": 0}, deadline="2h"))
    assert job.shape["throughput"] == {"V100": 0.0}
    assert job.shape["deadline_seconds"] == 7_200.0


def test_the_limit_of_unfinished_jobs_counts_what_a_bulk_adds(member: Viewer) -> None:
    Tenant.objects.filter(name="vision").update(most_unfinished_jobs=5)
    jobs_submit_bulk(viewer=member, tenant=None, specs=[spec()] * 3)
    with pytest.raises(QuotaExceeded):
        jobs_submit_bulk(viewer=member, tenant=None, specs=[spec()] * 3)
    jobs_submit_bulk(viewer=member, tenant=None, specs=[spec()] * 2)
    with pytest.raises(QuotaExceeded):
        job_submit(viewer=member, tenant=None, spec=spec())
    make_job()
    assert Job.objects.filter(tenant__name="vision").count() == 5
    Job.objects.filter(tenant__name="vision").first().delete()
    job_submit(viewer=member, tenant=None, spec=spec())


def test_a_job_without_gpus_is_taken_where_some_node_can_hold_it(member: Viewer) -> None:
    small = make_node("cpu-small", gpus=0, cpus=16, memory_bytes=32 * 2**30)
    make_node("cpu-large", gpus=0, cpus=32, memory_bytes=32 * 2**30)
    Node.objects.exclude(id__in=Node.objects.filter(gpu_model=None)).update(cpus=8, memory_bytes=2**30)
    wanted = {"gpus": 0, "gpu_model": "any", "resources": {"cpu": 24, "memory": "32GiB"}}
    job = job_submit(viewer=member, tenant=None, spec=spec(**wanted, nodes={"avoid": [small.name]}))
    assert (job.gpus, job.shape["tasks"]) == (0, [[1, 0, 24.0, 32 * 2**30]])

    wanted["resources"] = {"cpu": 40, "memory": "32GiB"}
    with pytest.raises(Invalid) as refused:
        job_submit(viewer=member, tenant=None, spec=spec(**wanted))
    (problem,) = refused.value.fields
    assert problem.field == "resources"
    assert problem.problem == (
        "No node has 40 CPUs and 32.0 GiB of memory for one replica. The nearest, cpu-large, has 32 CPUs and"
        " 32.0 GiB of memory."
    )
    assert problem.expected == "Ask for at most 32 CPUs and 32.0 GiB of memory per replica."
    wanted["resources"] = {"cpu": 16}
    with pytest.raises(Invalid, match="The 4 replicas do not fit onto the 2 nodes without GPUs"):
        job_submit(viewer=member, tenant=None, spec=spec(**wanted, replicas=4))
