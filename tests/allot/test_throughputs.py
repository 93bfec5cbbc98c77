"""`allot throughputs` against the real REST API."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from django.conf import settings

from allot import schema
from allot.client import Client
from allot.commands.throughputs import profile_words
from scheduler.models import GpuModel, PolicyMemory, SpeedCorrection
from tenants.models import Tenant
from tests.allot.in_process import Allot, signed_in
from tests.api.caller import make_token
from tests.scheduler.builders import (
    gpus_of,
    make_attempt,
    make_job,
    make_measurement,
    make_member,
    make_node,
    make_tenant,
    make_user,
    make_vc,
)


@pytest.fixture
def allot(live_server: Any, redis_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Allot:
    """Signed in as an admin of a tenant of which something is known."""
    tenant = make_tenant("vision")
    make_node("v100-1", gpus=4)
    make_node("k80-1", gpus=4, gpu_model="K80")
    make_measurement(tenant, "bert", 812.5, gpus=4)
    make_measurement(tenant, "bert", 100.0, gpus=4, gpu_model="K80")
    make_measurement(tenant, "bert", 0.5, gpus=4, partner="gpt")
    monkeypatch.chdir(tmp_path)

    return signed_in(monkeypatch, str(live_server.url), make_token(make_member(tenant, "ada", role="admin")))


def test_throughputs_are_listed_and_corrected(allot: Allot) -> None:
    lines = allot("throughputs", "list").stdout.splitlines()
    assert lines[0].split() == ["APPLICATION", "TENANT", "GPUS", "NODES", "K80", "V100"]
    assert lines[1].split() == ["bert", "vision", "4", "near", "100", "812.5"]
    assert "0.5" in allot("throughputs", "list", "--partners").stdout
    assert len(allot("throughputs", "list", "nothing").stdout.splitlines()) == 1
    done = allot("throughputs", "correct", "bert", "V100", "900", "-g", "4", "--reason", "a better run")
    assert done.stdout == "bert with 4 GPUs on V100: 900, from the next round on.\n"
    assert allot("throughputs", "list").stdout.splitlines()[1].split()[-1] == "900*"
    assert SpeedCorrection.objects.get().reason == "a better run"
    allot("throughputs", "correct", "bert", "V100", "-g", "4", "--remove")
    assert allot("throughputs", "list").stdout.splitlines()[1].split()[-1] == "812.5"
    assert allot("throughputs", "correct", "bert", "V100", "-g", "4", "--remove").exit_code == 3
    assert allot("throughputs", "correct", "bert", "V100").exit_code == 2
    refused = allot("throughputs", "correct", "bert", "V100", "1e-9", "-g", "4")
    assert refused.exit_code == 1
    assert "value: 1e-09 is too far from 100 on K80" in refused.stderr
    refused = allot("throughputs", "correct", "bert", "V100", "-1", "-g", "4")
    assert (refused.exit_code, "value: is too small. Expected: a number" in refused.stderr) == (1, True)


def test_a_file_is_imported_and_exported(allot: Allot, tmp_path: Path) -> None:
    table = {"v100": {"('LM (batch size 5)', 1)": {"null": 10.0}}, "t4": {"('A3C', 1)": {"null": 2.0}}}
    (tmp_path / "gavel.json").write_text(json.dumps(table, indent=4))
    tried = allot("throughputs", "import", "gavel.json", "--dry-run")
    assert tried.stdout.splitlines()[:2] == [
        "2 throughputs would be added, 0 would be changed, 0 unchanged.",
        "  LM (batch size 5) is called LM-batch-size-5.",
    ]
    assert "the cluster has no GPUs of t4" in tried.stderr
    assert not SpeedCorrection.objects.exists()
    assert allot("throughputs", "import", "gavel.json").stdout.startswith("2 throughputs added, 0 changed")
    exported = allot("throughputs", "export").stdout
    assert "LM-batch-size-5,1,V100,10,,,corrected,0" in exported.splitlines()
    again = allot("throughputs", "import", "-", "-o", "json", stdin=exported)
    assert json.loads(again.stdout)["unchanged"] == 2
    allot("throughputs", "export", "--layout", "gavel", "-f", "out.json")
    assert json.loads((tmp_path / "out.json").read_text())["t4"] == {"('A3C', 1)": {"null": 2.0}}
    wrong = allot("throughputs", "import", "-", stdin="application,gpus,gpu_model,rate\nbert,0,V100,1\n")
    assert wrong.exit_code == 1
    assert "line 2: gpus: 0 is no size of a gang" in wrong.stderr
    assert allot("throughputs", "import", "absent.csv").exit_code == 2
    assert allot("throughputs", "import", "-", stdin="{ no json").exit_code == 1


def test_a_table_fits_without_its_white_space(allot: Allot, tmp_path: Path) -> None:
    table = {"v100": {"('A3C', 1)": {"null": 2.0}}}
    wide = json.dumps(table, indent=200_000)
    assert len(wide) > settings.DATA_UPLOAD_MAX_MEMORY_SIZE
    (tmp_path / "gavel.json").write_text(wide)
    assert allot("throughputs", "import", "gavel.json").stdout.startswith("1 throughput added")


def test_why_a_job_is_on_its_model(allot: Allot) -> None:
    node = make_node("v100-2", gpus=4)
    vc = make_vc("shared")
    job = make_job(virtual_cluster=vc, tenant=_vision(), gpus=4)
    job.shape["application"] = "bert"
    job.save()
    make_attempt(job, gpus_of(node))
    memory = {"targets": {str(job.id): {"V100": 0.45}}, "reset_at": 0.0, "at": 10.0, "received": {}}
    PolicyMemory.objects.create(view="shared", memory={**memory, "objective": "max_min"})
    lines = allot("throughputs", "show", str(job.id)).stdout.splitlines()
    assert lines[0] == f"Job {job.id}: bert, 4 GPUs"
    assert lines[2] == "It runs on V100, 8.1x as fast as on K80; its target is 45% of its time on V100."
    assert lines[3].startswith("Profile: not measured yet")
    assert lines[6].split()[:7] == ["K80", "100", "12%", "measured", "(3)", "0%", "0%"]
    assert lines[7].split()[-1] == "runs"
    assert allot("throughputs", "show", "999999").exit_code == 3


def test_operators_price_models_and_say_for_whom(allot: Allot, monkeypatch: pytest.MonkeyPatch) -> None:
    assert allot("throughputs", "price", "V100", "2.5").exit_code == 3
    monkeypatch.setenv("ALLOT_TOKEN", make_token(make_user("olga", operator=True)))
    assert (
        allot("throughputs", "price", "V100", "2.5").stdout == "V100: 2.5 an hour, from the next round on.\n"
    )
    assert GpuModel.objects.get(name="V100").price_per_hour == 2.5
    make_tenant("speech")
    asked = allot("throughputs", "export")
    assert asked.exit_code == 2
    assert "--tenant" in asked.stderr
    assert "bert" in allot("throughputs", "export", "--tenant", "vision").stdout


def test_answers_are_what_their_types_promise(allot: Allot) -> None:
    job = make_job(tenant=_vision())
    text = "application,gpus,gpu_model,rate\nbert,1,V100,2\n"
    setting = {"tenant": "vision", "application": "bert", "gpu_model": "V100", "gpus": 4}
    with Client.from_environment() as client:
        answers = [
            (client.throughputs.correct(setting, 5.0), schema.ThroughputRow),
            (list(client.throughputs.list()), list[schema.ThroughputRow]),
            (client.throughputs.import_table("vision", text), schema.ThroughputImport),
            (client.throughputs.of_job(job.id), schema.JobThroughputs),
        ]
    for answer, kind in answers:
        assert answer
        msgspec.convert(answer, type=kind)


def _vision() -> Any:
    return Tenant.objects.get(name="vision")


def test_a_profile_is_said_in_words_and_also_that_there_is_none() -> None:
    assert "do not let it share" in profile_words(None)
    profile: schema.JobProfile = {
        "utilisation": 0.35,
        "memory_utilisation": None,
        "memory_bytes": 2 * 2**30,
        "amp": True,
        "stages": [0.4, 0.2, 0.1],
        "is_own": False,
    }
    assert profile_words(profile) == (
        "Profile, of jobs like it: 35% of the time computing, 2 GiB of a GPU's memory, 0.4 s an iteration on"
        " storage, 0.2 s on the GPU, 0.1 s on the network, mixed precision."
    )
