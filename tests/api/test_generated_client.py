"""A client that a kept generator makes of the committed description works against the API."""

import importlib
import inspect
import json
import pkgutil
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any
from uuid import UUID

import httpx
import pytest
from django.core.wsgi import get_wsgi_application
from django.utils import timezone

from scheduler.models import Job, JobTemplate, Round, ServingPool
from tenants.models import Role
from tests.api.caller import make_token
from tests.api.description import COMMITTED
from tests.patience import PATIENCE_SECONDS
from tests.scheduler.builders import make_attempt, make_job, make_node, make_tenant, make_user, make_vc

ROOT = Path(__file__).resolve().parents[2]
NAME = "generated"
#: For all parameters of paths, by their types.
OF_TYPE: dict[Any, Any] = {int: 999, str: NAME, UUID: UUID(int=4)}


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    folder = tmp_path_factory.mktemp("client")
    configuration = folder / "configuration.yaml"
    # Its own formatter would only cost time.
    configuration.write_text(f"package_name_override: {NAME}\npost_hooks: []\n")
    command = [str(Path(sys.executable).with_name("openapi-python-client")), "generate", "--meta", "none"]
    command += ["--path", str(COMMITTED), "--output-path", str(folder / NAME), "--config", str(configuration)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False)
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    assert said.count("Unable to process schema") == 0, said
    assert said.count("WARNING parsing") == 0, said
    sys.path.insert(0, str(folder))
    try:
        yield importlib.import_module(NAME)
    finally:
        sys.path.remove(str(folder))
        for name in [name for name in sys.modules if name.partition(".")[0] == NAME]:
            del sys.modules[name]


def modules(package: ModuleType) -> list[ModuleType]:
    found = pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
    return [importlib.import_module(each.name) for each in found]


@pytest.fixture
def client(generated: ModuleType, one_connection: None, db: None) -> Any:
    """The operator's, in a small cluster in which everything that has a name is called NAME."""
    operator = make_user(NAME, operator=True)
    tenant = make_tenant(NAME, members={operator: Role.ADMIN})
    cluster = make_vc(NAME, members=[tenant], guaranteed={NAME: 2})
    node = make_node(NAME, gpu_model=NAME, gpus=2)
    ServingPool.objects.create(name=NAME)
    Round.objects.create(number=1, started_at=timezone.now(), state="applied")
    JobTemplate.objects.create(tenant=tenant, owner=operator, name=NAME, spec={"name": NAME})
    job = make_job(tenant=tenant, virtual_cluster=cluster, submitted_by=operator)
    make_attempt(job, list(node.gpus.all()[:1]))
    transport = httpx.WSGITransport(app=get_wsgi_application())
    return generated.AuthenticatedClient(
        base_url="http://localhost", token=make_token(operator), httpx_args={"transport": transport}
    )


def operations() -> Iterator[ModuleType]:
    for module in modules(importlib.import_module(f"{NAME}.api")):
        if hasattr(module, "sync_detailed"):
            yield module


def test_every_get_is_called_and_its_answer_understood(generated, client):
    modules(generated)
    known = {"job_id": Job.objects.get().id, "number": 1}
    understood, not_there = set(), set()
    for module in operations():
        name = module.__name__.rpartition(".")[2]
        parameters = inspect.signature(module._get_kwargs).parameters.values()
        needed = [each for each in parameters if each.default is inspect.Parameter.empty]
        if any(each.name == "body" for each in needed):
            continue
        values = {each.name: known.get(each.name, OF_TYPE[each.annotation]) for each in needed}
        if module._get_kwargs(**values)["method"] != "get":
            continue
        answer = module.sync_detailed(client=client, **values)
        if answer.status_code == 200 and answer.parsed is not None:
            understood.add(name)
        else:
            not_there.add(name)
            assert answer.status_code in (200, 302, 400, 404, 409), (name, answer)
    # Of these there are none in this cluster.
    rows = {"cells_advice_get", "ledger_get", "ledger_replay_get"}
    rows |= {
        # Nor does its server see a checkpoint folder.
        "jobs_artefacts_content_get",
        "jobs_artefacts_list",
        "jobs_code_get",
        # Text that means something: any is no word by which jobs are grouped.
        "jobs_groups_list",
        "maintenance_get",
        "market_loans_get",
        "market_offers_get",
        "reservations_get",
        "tenants_archives_get",
        "webhooks_get",
        "webhooks_deliveries_list",
        "what_if_get",
    }
    assert not_there == rows
    assert len(understood) > 70


def test_jobs_are_checked_submitted_and_asked_about(generated, client):
    models = importlib.import_module(f"{NAME}.models")
    task = {"name": "main", "resources": {"gpu": 1}, "command": ["true"], "env": {"V": "1.10"}}
    spec = {"name": "made", "tenant": NAME, "virtual_cluster": NAME, "tasks": [task]}
    posts = {each.__name__.rpartition(".")[2]: each for each in operations()}
    submitted = posts["jobs_create"].sync(client=client, body=models.JobSubmitRequest.from_dict(spec))
    assert submitted.name == "made"
    checked = posts["jobs_check"].sync(client=client, body=models.JobSubmitRequest.from_dict(spec))
    assert checked.to_dict()["normalised"]["tasks"][0]["env"] == {"V": "1.10"}
    body = models.BulkSubmitRequest.from_dict({"tenant": NAME, "jobs": [spec | {"name": "many"}]})
    assert [each.name for each in posts["jobs_bulk"].sync(client=client, body=body).jobs] == ["many"]
    question = models.WhatIfQuestionRequest.from_dict({"job": submitted.id, "changes": {"priority": 5}})
    assert posts["what_if_create"].sync(client=client, body=question).state == "waiting"
    listed = posts["virtual_clusters_list"].sync(client=client)
    assert [each.name for each in listed.results] == [NAME]


def test_the_audit_export_is_lines_of_json(generated, client):
    export = next(each for each in operations() if each.__name__.endswith(".audit_export_get"))
    entries = [json.loads(line) for line in export.sync(client=client).splitlines()]
    assert len(entries) > 3
    assert {"id", "at", "action", "actor"} <= set(entries[0])
    plain = client.get_httpx_client().get("/api/v1/audit/export", headers={"Accept": "text/plain"})
    assert plain.headers["Content-Type"].startswith("text/plain")
    assert [json.loads(line) for line in plain.text.splitlines()][: len(entries)] == entries
    usual = client.get_httpx_client().get("/api/v1/audit/export")
    assert usual.headers["Content-Type"] == "application/jsonl"


#: Asks for the cluster, as a program in TypeScript does, and prints what it understood.
ASKS = """
import {{ clusterGet }} from {client};
import {{ client }} from {settings};
client.setConfig({{ baseUrl: {url}, auth: {token} }});
const {{ data, error }} = await clusterGet();
console.log(JSON.stringify(error ?? data!.jobs.queued + 0));
"""


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
def test_a_typescript_client_is_sound_and_asks(tmp_path: Path, live_server: Any) -> None:
    """Strictly checked, so that what is described loosely or twice is an error here."""
    tenant = make_tenant(NAME)
    make_job(tenant=tenant)
    client, asks = tmp_path / "client", tmp_path / "asks.ts"
    told = {
        "client": "./client/index",
        "settings": "./client/client.gen",
        "url": live_server.url,
        "token": make_token(make_user(operator=True)),
    }
    asks.write_text(ASKS.format(**{name: json.dumps(value) for name, value in told.items()}))
    by_npm("openapi-ts", "-i", COMMITTED, "-o", client, "-c", "@hey-api/client-fetch")
    strict = "--noEmit --strict --target es2022 --module esnext --moduleResolution bundler"
    by_npm("tsc", *strict.split(), "--lib", "es2022,dom,dom.iterable", client / "index.ts", asks)
    by_npm("rolldown", asks, "--file", tmp_path / "asks.mjs", "--format", "esm")
    assert by_npm("node", tmp_path / "asks.mjs").strip() == "1"


def by_npm(program: str, *arguments: object) -> str:
    """Run a program that the dashboard's packages bring along; return what it wrote."""
    call = shlex.join([program, *map(str, arguments)])
    done = subprocess.run(
        [str(ROOT / "scripts" / "npm"), "exec", "--call", call],
        capture_output=True,
        text=True,
        timeout=4 * PATIENCE_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
