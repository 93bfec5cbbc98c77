"""Throughputs by API: who sees which, corrections, files, and why a job is on its GPU model."""

import json
from datetime import timedelta
from pathlib import Path
from urllib.parse import urlencode

import pytest
from django.utils import timezone

from scheduler.core.model.gpu_parts import GpuPart
from scheduler.core.perf.estimator import Group
from scheduler.models import GpuModel, JobProfile, PolicyMemory, SpeedCorrection, SpeedMeasurement
from scheduler.rounds.snapshot import read_snapshot
from scheduler.telemetry.throughputs.services import rows as throughputs
from scheduler.telemetry.throughputs.services.on_record import read_estimator
from tenants.models import AuditEntry, Tenant
from tests.api.caller import Caller, caller, is_error
from tests.scheduler.builders import (
    gpus_of,
    held_since,
    make_attempt,
    make_class_profile,
    make_correction,
    make_gpu_model,
    make_job,
    make_measurement,
    make_member,
    make_tenant,
)
from tests.scheduler.conftest import World, spec

HEADER = "application,gpus,gpu_model,rate,nodes,other\n"
GAVEL = Path(__file__).parents[4] / "shared/data/gavel/simulation_throughputs.json"
BERT = {"tenant": "vision", "application": "bert", "gpu_model": "V100", "gpus": 4}


@pytest.fixture
def admin(world: World) -> Caller:
    return caller(make_member(world.tenant, "ada", role="admin"))


def rows(who: Caller, **query: object) -> list[dict]:
    answer = who.get(f"/throughputs?{urlencode(query)}")
    assert answer.status_code == 200, answer.content
    return answer.json()["results"]


def put(who: Caller, **fields: object):
    return who.put("/throughputs/correction", {**BERT, "value": 100.0, **fields})


def send(who: Caller, content: str, **fields: object):
    return who.post("/throughputs/import", {"tenant": "vision", "content": content, **fields})


# -- the list ----------------------------------------------------------------------------------------


def test_a_row_tells_of_every_model_what_is_known_and_who_says_so(world: World, admin: Caller) -> None:
    make_gpu_model("K80")
    make_measurement(world.tenant, "bert", 800.0, gpus=4, samples=4, variance=400.0)
    make_correction(world.tenant, "bert", 810.0, gpus=4, reason="a better run")
    for model, throughput in (("V100", 10.0), ("K80", 2.0)):
        make_measurement(
            make_tenant("elsewhere") if model == "V100" else Tenant.objects.get(name="elsewhere"),
            "secret",
            throughput,
            gpu_model=model,
            gpus=4,
        )
    (row,) = rows(world.viewer)
    assert {name: row[name] for name in ("tenant", "application", "gpus", "spread", "partner")} == {
        "tenant": "vision",
        "application": "bert",
        "gpus": 4,
        "spread": False,
        "partner": "",
    }
    assert row["may_correct"] is False
    k80, v100 = row["throughputs"]
    assert (k80["gpu_model"], k80["value"], k80["source"], k80["relative"]) == (
        "K80",
        162.0,
        "estimated",
        0.2,
    )
    assert (k80["measured"], k80["correction"], k80["declared"]) == (None, None, None)
    assert 0 < k80["confidence"] <= 0.5
    assert (v100["value"], v100["source"], v100["samples"], v100["confidence"]) == (
        810.0,
        "corrected",
        4,
        1.0,
    )
    assert (v100["measured"]["average"], v100["measured"]["deviation"]) == (800.0, 20.0)
    assert v100["correction"]["reason"] == "a better run"
    assert v100["correction"]["by"].startswith("user ")
    assert [row["may_correct"] for row in rows(admin)] == [True]
    assert [row["may_correct"] for row in rows(world.operator)] == [True, True]


def test_what_unfinished_jobs_declare_is_listed(world: World) -> None:
    for throughput in (100.0, 120.0):
        world.member.post("/jobs", spec(application="gpt", throughput={"V100": throughput}, tenant="vision"))
    (row,) = rows(world.member)
    (cell,) = row["throughputs"]
    assert (cell["declared"], cell["value"], cell["source"], cell["confidence"]) == (
        120.0,
        120.0,
        "declared",
        0.5,
    )
    job = world.tenant.jobs.first()
    job.state, job.ended_at = "succeeded", timezone.now()
    job.save()
    assert len(rows(world.member)) == 1


def test_rows_are_filtered_and_paged(world: World) -> None:
    for application, gpus, model in (("bert", 1, "V100"), ("bert", 4, "K80"), ("gpt", 1, "V100")):
        make_gpu_model(model)
        make_measurement(world.tenant, application, 5.0, gpus=gpus, gpu_model=model)
    make_measurement(world.tenant, "gpt", 0.5, partner="bert")
    make_measurement(world.tenant, "gpt", 2.0, spread=True, gpus=2)

    def names(**query: object) -> list[tuple]:
        return [(row["application"], row["gpus"]) for row in rows(world.viewer, **query)]

    assert names() == [("bert", 1), ("bert", 4), ("gpt", 1), ("gpt", 2)]
    assert names(application="BER") == [("bert", 1), ("bert", 4)]
    assert names(gpus=1) == [("bert", 1), ("gpt", 1)]
    assert names(gpu_model="K80") == [("bert", 4)]
    assert names(partners="true") == [("gpt", 1)]
    assert names(tenant="vision", application="none") == []
    (only,) = rows(world.viewer, gpu_model="K80")
    assert [cell["gpu_model"] for cell in only["throughputs"]] == ["K80"]
    first = world.viewer.get("/throughputs?page_size=3").json()
    assert (len(first["results"]), first["previous"]) == (3, None)
    second = world.viewer.get(first["next"]).json()
    assert [(row["application"], row["gpus"]) for row in second["results"]] == [("gpt", 2)]
    assert world.stranger.get("/throughputs").json()["results"] == []
    is_error(world.stranger.get("/throughputs?tenant=vision"), 404, "not_found")


# -- corrections -------------------------------------------------------------------------------------


def test_a_correction_overrules_and_is_audited(world: World, admin: Caller) -> None:
    make_measurement(world.tenant, "bert", 80.0, gpus=4)
    answer = put(admin, reason="measured with old data")
    assert answer.status_code == 200
    assert answer.json()["throughputs"][0]["source"] == "corrected"
    job = make_job(tenant=world.tenant, gpus=4)
    job.shape["application"] = "bert"
    job.save()
    assert read_snapshot(1).jobs[0].throughput == {"V100": 100.0}
    put(world.operator, value=90.0)
    correction = SpeedCorrection.objects.get()
    assert (correction.value, correction.by.username, correction.reason) == (90.0, "olga", "")
    assert admin.delete(f"/throughputs/correction?{urlencode(BERT)}").status_code == 204
    assert read_snapshot(1).jobs[0].throughput == {"V100": 80.0}
    is_error(admin.delete(f"/throughputs/correction?{urlencode(BERT)}"), 404, "not_found")
    entries = AuditEntry.objects.filter(object_kind="speed correction").order_by("id")
    did = [entry.action.removeprefix("speed-correction.") for entry in entries]
    assert did == ["create", "change", "remove"]
    assert entries[1].before["value"] == 100.0
    assert entries[1].after["value"] == 90.0
    assert {entry.tenant for entry in entries} == {world.tenant.name}


@pytest.mark.parametrize(
    ("fields", "where"),
    [
        ({"value": -1}, "value"),
        ({"value": 1e13}, "value"),
        ({"value": "fast"}, "value"),
        ({"value": None}, "value"),
        ({"value": 1.5, "partner": "gpt"}, "value"),
        ({"value": 1e-5}, "value"),
        ({"gpus": 0}, "gpus"),
        ({"gpus": 10**9}, "gpus"),
        ({"gpu_model": "V 100"}, "gpu_model"),
        ({"application": "a b"}, "application"),
        ({"application": "name:"}, "application"),
        ({"partner": "a b"}, "partner"),
        ({"partner": "gpt+a b"}, "partner"),
        ({"partner": "gpt+"}, "partner"),
        ({"partner": "a+b+c+d", "value": 0.5}, "partner"),
        ({"reason": "x" * 201}, "reason"),
        ({"colour": "red"}, "colour"),
    ],
)
def test_what_can_not_be_a_throughput_is_refused_by_field(
    world: World, admin: Caller, fields: dict, where: str
) -> None:
    make_measurement(world.tenant, "bert", 100.0, gpus=4, gpu_model="K80")
    answer = put(admin, **fields)
    is_error(answer, 400, "invalid")
    (field,) = answer.json()["fields"]
    assert field["field"] == where
    assert field["problem"]
    assert not SpeedCorrection.objects.exists()


def test_a_speed_beside_several_is_corrected_and_taken_back_in_any_order(world: World, admin: Caller) -> None:
    make_measurement(world.tenant, "bert", 0.9, gpus=4, partner="gpt+name:vit")
    (row,) = rows(admin, partners="true")
    assert row["may_correct"]
    assert put(admin, value=0.4, partner="name:vit+gpt").json()["partner"] == "gpt+name:vit"
    (row,) = rows(admin, partners="true")
    assert [cell["value"] for cell in row["throughputs"]] == [0.4]
    where = urlencode({**BERT, "partner": "name:vit+gpt"})
    assert admin.delete(f"/throughputs/correction?{where}").status_code == 204
    (row,) = rows(admin, partners="true")
    assert [cell["value"] for cell in row["throughputs"]] == [0.9]


def test_groups_come_from_a_file_and_go_into_one(world: World, admin: Caller) -> None:
    text = "".join(
        f"{one},1,V100,10,,\n{one},1,V100,3,,{two}+{three}\n"
        for one, two, three in (("bert", "vit", "gpt"), ("gpt", "bert", "vit"), ("vit", "gpt", "bert"))
    )
    assert send(admin, HEADER + text).json()["added"] == 6
    assert dict(read_estimator().groups) == {Group(("bert", "gpt", "vit"), 1, "V100"): (0.3, 0.3, 0.3)}
    written = admin.get("/throughputs/export?tenant=vision").content.decode()
    assert "bert,1,V100,3,,gpt+vit,corrected,0\n" in written
    assert send(admin, written, dry_run=True).json()["unchanged"] == 6


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_what_is_no_number_is_not_even_read(world: World, admin: Caller, value: float) -> None:
    is_error(put(admin, value=value), 400, "malformed")
    is_error(world.operator.patch("/gpu-models/V100", {"price_per_hour": value}), 400, "malformed")


def test_a_tenant_corrects_so_much_and_no_more(
    world: World, admin: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(throughputs, "MOST_CORRECTIONS_PER_TENANT", 1)
    assert put(admin).status_code == 200
    assert put(admin, value=5.0).status_code == 200
    is_error(put(admin, gpus=8), 409, "quota_exceeded")


# -- files -------------------------------------------------------------------------------------------


def test_a_file_is_tried_first_and_then_taken_over_as_a_whole(world: World, admin: Caller) -> None:
    make_correction(world.tenant, "bert", 100.0, gpus=4)
    make_correction(world.tenant, "bert", 7.0, gpus=1)
    content = f"{HEADER}bert,4,v100,200,,\nbert,4,T4,20,,\nbert,1,V100,7,,\nbert,4,v100,100,,gpt\n"
    tried = send(admin, content, dry_run=True).json()
    expected = {"layout": "csv", "added": 2, "changed": 1, "unchanged": 1, "unknown_models": ["T4"]}
    assert {name: tried[name] for name in expected} == expected
    assert [
        (each["gpu_model"], each["partner"], each["before"], each["after"]) for each in tried["changes"]
    ] == [
        ("T4", "", None, 20.0),
        ("V100", "", 100.0, 200.0),
        ("V100", "gpt", None, 0.5),
    ]
    assert SpeedCorrection.objects.count() == 2
    done = send(admin, content, reason="from the lab").json()
    assert done == {**tried, "dry_run": False}
    assert dict(SpeedCorrection.objects.filter(gpus=4).values_list("gpu_model", "reason")) == {
        "T4": "from the lab",
        "V100": "from the lab",
    }
    imported = AuditEntry.objects.filter(request="POST api/v1/throughputs/import").count()
    assert imported >= 2
    again = send(admin, content).json()
    assert (again["added"], again["changed"], again["unchanged"]) == (0, 0, 4)
    assert AuditEntry.objects.filter(request="POST api/v1/throughputs/import").count() == imported


def test_of_a_file_with_wrong_lines_nothing_is_taken_over(world: World, admin: Caller) -> None:
    content = f"{HEADER}bert,4,V100,200,,\nbert,4,K80,-1,,\nbert,x,K80,1,,\n"
    answer = send(admin, content)
    is_error(answer, 400, "invalid")
    assert [field["field"] for field in answer.json()["fields"]] == ["line 3", "line 4"]
    assert "2 lines are wrong" in answer.json()["detail"]
    many = send(admin, HEADER + "bert,1,V100,-1,,\n" * 500).json()
    assert len(many["fields"]) == 100
    assert "500 lines are wrong" in many["detail"]
    make_measurement(world.tenant, "bert", 1e9, gpus=4, gpu_model="K80")
    beyond = send(admin, f"{HEADER}bert,4,V100,200,,\n").json()
    assert [field["field"] for field in beyond["fields"]] == ["bert, 4, V100"]
    assert not SpeedCorrection.objects.exists()
    # Where the file says both, what was measured does not matter.
    assert send(admin, f"{HEADER}bert,4,V100,200,,\nbert,4,K80,20,,\n").status_code == 200
    twice = send(admin, f"{HEADER}bert,4,V100,200,,\nbert,4,v100,20,,\n").json()
    assert "two spellings" in twice["detail"]


def test_too_large_a_file_is_refused(world: World, admin: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scheduler.telemetry.throughputs.services.files.MOST_CORRECTIONS_PER_TENANT", 2)
    content = HEADER + "".join(f"a{n},1,V100,1,,\n" for n in range(3))
    is_error(send(admin, content), 409, "quota_exceeded")
    assert not SpeedCorrection.objects.exists()


def test_what_is_exported_can_be_imported_again(world: World, admin: Caller) -> None:
    make_measurement(world.tenant, "bert", 80.0, gpus=4)
    make_measurement(world.tenant, "bert", 40.0, gpus=4, spread=True)
    make_correction(world.tenant, "bert", 8.0, gpus=4, gpu_model="K80")
    world.member.post("/jobs", spec(application="gpt", throughput={"V100": 30.0}, tenant="vision"))
    exported = world.viewer.client.get(
        "/api/v1/throughputs/export?tenant=vision", headers=world.viewer.headers
    )
    assert exported["Content-Type"] == "text/csv"
    assert exported["Content-Disposition"] == 'attachment; filename="throughputs-vision.csv"'
    lines = exported.content.decode().splitlines()
    assert lines[1:] == [
        "bert,4,K80,8,,,corrected,0",
        "bert,4,V100,80,,,measured,3",
        "bert,4,V100,40,2,,measured,3",
        "gpt,1,V100,30,,,declared,0",
    ]
    done = send(admin, exported.content.decode()).json()
    assert (done["added"], done["unchanged"]) == (3, 1)
    gavel = world.viewer.get("/throughputs/export?tenant=vision&layout=gavel").json()
    assert gavel["v100_unconsolidated"] == {"('bert', 4)": {"null": 40.0}}
    assert gavel["k80"] == {"('bert', 4)": {"null": 8.0}}
    again = send(admin, json.dumps(gavel)).json()
    assert (again["layout"], again["unchanged"], again["added"]) == ("gavel", 4, 0)


def test_gavels_whole_table_is_taken_over(world: World, admin: Caller) -> None:
    if not GAVEL.exists():
        pytest.skip(f"the public data are not here: {GAVEL}")
    text = json.dumps(json.loads(GAVEL.read_text()), separators=(",", ":"))
    done = send(admin, text)
    assert done.status_code == 200, done.content[:500]
    answer = done.json()
    assert (answer["layout"], answer["unknown_models"]) == ("gavel", ["k80", "p100"])
    assert answer["added"] == SpeedCorrection.objects.count() == 5_712
    assert len(answer["changes"]) == 200
    assert {"from": "LM (batch size 5)", "to": "LM-batch-size-5"} in answer["renamed"]
    # A job whose class nobody knows is told by it how fast it is on the models that it says nothing of.
    make_gpu_model("K80")
    world.member.post("/jobs", spec(application="new", throughput={"V100": 100.0}, tenant="vision"))
    (job,) = read_snapshot(1).jobs
    assert job.estimated == ()
    SpeedCorrection.objects.filter(gpu_model="k80").update(gpu_model="K80", at=timezone.now())
    (job,) = read_snapshot(1).jobs
    assert job.estimated == ("K80",)
    assert 5 < job.throughput["K80"] < 100


# -- a job -------------------------------------------------------------------------------------------


def test_a_job_without_anything_known(world: World) -> None:
    job = make_job(tenant=world.tenant, virtual_cluster=world.virtual_cluster, name="nightly")
    answer = world.viewer.get(f"/jobs/{job.id}/throughputs").json()
    assert (answer["application"], answer["view"]) == ("name:nightly", "research")
    assert answer["policy_plugin"] == {"name": "fifo", "parameters": {}}
    assert (answer["objective"], answer["decided_at"]) == (None, None)
    (v100,) = answer["models"]
    assert v100 == {
        "gpu_model": "V100",
        "price_per_hour": 1.0,
        "accepted": True,
        "throughput": None,
        "relative": None,
        "source": None,
        "samples": 0,
        "confidence": 0.0,
        "target_share": None,
        "received_seconds": None,
        "received_share": None,
        "attained_gpu_seconds": 0.0,
        "attained_share": None,
        "runs_now": False,
    }


def test_why_a_job_is_on_its_model(world: World) -> None:
    make_gpu_model("K80")
    world.virtual_cluster.policy_parameters = {"interval_seconds": 60.0}
    world.virtual_cluster.save()
    job = make_job(tenant=world.tenant, virtual_cluster=world.virtual_cluster, gpus=2, gpu_models=["V100"])
    job.shape |= {"application": "bert", "throughput": {"K80": 10.0, "V100": 50.0}}
    job.service = {"K80": 300.0}
    job.save()
    attempt = make_attempt(job, gpus_of(world.node)[:2])
    held_since(attempt, timezone.now() - timedelta(seconds=50))
    memory = {
        "policy": "gavel",
        "objective": "max_min",
        "reset_at": 1_000.0,
        "at": 1_200.0,
        "targets": {str(job.id): {"V100": 0.5}, "9999": {"K80": 1.0}},
        "shared": {f"{job.id}+9999": {"V100": 0.25}, "77+9999": {"K80": 1.0}},
        "received": {str(job.id): {"V100": 150.0}},
    }
    PolicyMemory.objects.create(view="research", memory=memory)
    answer = world.viewer.get(f"/jobs/{job.id}/throughputs").json()
    assert answer["objective"] == "max_min"
    assert answer["policy_plugin"] == {"name": "fifo", "parameters": {"interval_seconds": 60.0}}
    assert answer["decided_at"] == "1970-01-01T00:16:40Z"
    k80, v100 = answer["models"]
    assert (k80["accepted"], k80["target_share"], k80["runs_now"]) == (False, 0.0, False)
    assert (k80["relative"], k80["source"], k80["attained_gpu_seconds"]) == (0.2, "declared", 300.0)
    assert (v100["target_share"], v100["received_seconds"], v100["received_share"]) == (0.75, 150.0, 0.75)
    assert v100["runs_now"]
    assert 100 <= v100["attained_gpu_seconds"] < 130
    assert v100["attained_share"] == pytest.approx(1 - k80["attained_share"])


def test_what_a_part_of_a_gpu_received_counts_as_a_part(world: World) -> None:
    job = make_job(tenant=world.tenant, virtual_cluster=world.virtual_cluster)
    part = GpuPart(request=300, limit=300, memory_bytes=0)
    attempt = make_attempt(job, gpus_of(world.node)[:1], part=part)
    held_since(attempt, timezone.now() - timedelta(seconds=100))
    (v100,) = world.viewer.get(f"/jobs/{job.id}/throughputs").json()["models"]
    assert 30 <= v100["attained_gpu_seconds"] < 40


def test_a_job_is_told_its_profile_its_own_before_that_of_its_like(world: World) -> None:
    job = make_job(tenant=world.tenant, virtual_cluster=world.virtual_cluster)

    def profile() -> dict[str, object] | None:
        return world.viewer.get(f"/jobs/{job.id}/throughputs").json()["profile"]

    assert profile() is None
    like = {"utilisation": 0.4, "memory_bytes": 2**30}
    make_class_profile(world.tenant, job.job_class.application, like)
    of_like = profile()
    assert of_like is not None
    assert (of_like["utilisation"], of_like["is_own"]) == (0.4, False)
    JobProfile.objects.create(job=job, profile={"utilisation": 0.9, "amp": True})
    assert profile() == {
        "utilisation": 0.9,
        "memory_utilisation": None,
        "memory_bytes": 2**30,
        "amp": True,
        "stages": None,
        "is_own": True,
    }


def test_an_opportunistic_job_is_told_of_the_spare_view(world: World) -> None:
    job = make_job(tenant=world.tenant, virtual_cluster=world.virtual_cluster, guaranteed=False)
    answer = world.viewer.get(f"/jobs/{job.id}/throughputs").json()
    assert (answer["view"], answer["policy_plugin"]["name"]) == ("spare", "fifo")


def test_a_deadline_is_told(world: World) -> None:
    answer = world.member.post("/jobs", spec(deadline="1h", tenant="vision")).json()
    job = world.member.get(f"/jobs/{answer['id']}").json()
    assert job["spec"]["deadline"] == 3600
    submitted = timezone.datetime.fromisoformat(job["submitted_at"])
    assert timezone.datetime.fromisoformat(job["deadline_at"]) == submitted + timedelta(hours=1)


# -- prices ------------------------------------------------------------------------------------------


def test_an_operator_prices_a_model(world: World) -> None:
    answer = world.operator.patch("/gpu-models/V100", {"price_per_hour": 2.5})
    assert (answer.status_code, answer.json()["price_per_hour"]) == (200, 2.5)
    assert world.viewer.get("/gpu-models").json()["results"][0]["price_per_hour"] == 2.5
    assert read_snapshot(1).prices == {"V100": 2.5}
    changes = AuditEntry.objects.filter(action="gpu-model.change")
    assert changes.get().after == {"price_per_hour": 2.5}
    world.operator.patch("/gpu-models/V100", {"price_per_hour": 2.5})
    assert changes.count() == 1
    is_error(world.operator.patch("/gpu-models/T4", {"price_per_hour": 1}), 404, "not_found")


@pytest.mark.parametrize("price", [-1, "dear", None, 1e10])
def test_what_is_no_price_is_refused(world: World, price: object) -> None:
    answer = world.operator.patch("/gpu-models/V100", {"price_per_hour": price})
    is_error(answer, 400, "invalid")
    assert answer.json()["fields"][0]["field"] == "price_per_hour"
    assert GpuModel.objects.get().price_per_hour == 1.0


def test_measurements_are_told_apart_by_tenant(world: World) -> None:
    """Two tenants' applications of one name are two job classes."""
    make_measurement(world.tenant, "bert", 1.0)
    make_measurement(make_tenant("speech"), "bert", 2.0)
    assert SpeedMeasurement.objects.count() == 2
    assert [row["tenant"] for row in rows(world.operator)] == ["speech", "vision"]
    assert [row["tenant"] for row in rows(world.operator, tenant="speech")] == ["speech"]
