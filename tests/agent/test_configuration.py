"""The configuration file: what is wrong with it is said, with the field."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from nodeagent.__main__ import main
from nodeagent.configuration import ConfigurationError, require_encryption
from nodeagent.process.isolation import Isolation
from tests.agent.builders import PLATFORM, read_configuration

GOOD: dict[str, Any] = {
    "server_url": "http://127.0.0.1:8000",
    "node": "v100-a1",
    "token": "secret",
    "work_folder": "nodes/v100-a1",
    "checkpoint_folder": "/shared/checkpoints",
    "inventory": {"kind": "simulated", "gpu_model": "V100", "gpus": [{"index": 0, "memory_bytes": 1}]},
}


def write(folder: Path, **changes: Any) -> Path:
    value = {name: item for name, item in {**GOOD, **changes}.items() if item is not ...}
    path = folder / "agent.json"
    path.write_text(json.dumps(value))
    return path


def test_folders_are_relative_to_the_file(tmp_path: Path) -> None:
    configuration = read_configuration(write(tmp_path))
    assert configuration.work_folder == str(tmp_path / "nodes/v100-a1")
    assert configuration.checkpoint_folder == "/shared/checkpoints"
    assert configuration.address == "127.0.0.1"
    assert configuration.inventory.gpus[0].socket == 0


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"node": ...}, "node: is missing"),
        ({"node": ""}, "node: must be text without spaces"),
        ({"token": "a b"}, "token: must be text without spaces"),
        ({"token": "a\r\nX-Evil: 1"}, "token: must be text without spaces"),
        ({"nodename": "x"}, "unknown field 'nodename'"),
        ({"server_url": "127.0.0.1:8000"}, "server_url: must start with http"),
        ({"work_folder": 3}, "work_folder: must be of type str"),
        ({"sandbox": "perhaps"}, "sandbox: must be one of 'required', 'preferred', 'off'"),
        ({"users": None}, "users: may be null, which lets jobs be root, only together with"),
        ({"readable_folders": ["data"]}, "readable_folders: must be absolute paths"),
        ({"users": {"first": 0}}, "users: must be user numbers other than root's"),
        ({"limits": {"disk_bytes": 0}}, "limits.disk_bytes: must be 1 or more"),
        ({"health": {"script": ["check.sh"]}}, "health.script: must begin with an absolute path"),
        ({"health": {"timeout_seconds": 90}}, "health.timeout_seconds: must be from 1 to every_seconds, 60"),
        (
            {"code": {"timeout_seconds": 1200}},
            "code.timeout_seconds: must be at most 300, not 1200: the server stops an attempt",
        ),
        ({"checkpoint_store": "/shared"}, "checkpoint_store: must be s3://BUCKET/PREFIX, not '/shared'"),
        ({"checkpoint_store": "s3://bucket/jobs"}, "checkpoint_endpoint: must be the address"),
        ({"inventory": {"kind": "rocm"}}, "inventory.kind: must be one of 'simulated', 'nvml', 'none'"),
        ({"inventory": {"kind": "none", "gpu_model": "V100"}}, "with kind none leave out gpus and gpu_model"),
        ({"inventory": {"kind": "nvml", "gpus": [{"index": 0, "memory_bytes": 1}]}}, "leave out gpus"),
        ({"inventory": {**GOOD["inventory"], "gpu_model": ""}}, "inventory.gpu_model: is missing"),
        (
            {"inventory": {**GOOD["inventory"], "storage_bandwidth": -1}},
            "inventory.storage_bandwidth: must be 0 or more bytes, not -1",
        ),
        ({"inventory": {**GOOD["inventory"], "cache_bytes": -1}}, "inventory.cache_bytes: must be 0 or more"),
        (
            {"inventory": {**GOOD["inventory"], "gpus": [{"index": 0}]}},
            "inventory.gpus.0.memory_bytes: is missing",
        ),
        (
            {"inventory": {**GOOD["inventory"], "gpus": GOOD["inventory"]["gpus"] * 2}},
            "two devices have the same index",
        ),
    ],
)
def test_a_bad_field_is_named(tmp_path: Path, changes: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        read_configuration(write(tmp_path, **changes))
    assert problem in str(caught.value)
    assert str(tmp_path) in str(caught.value)


@pytest.mark.parametrize(
    ("text", "problem"), [("{", "is not JSON"), ("[]", "must be one JSON object"), (None, "cannot be read")]
)
def test_a_bad_file_is_said(tmp_path: Path, text: str | None, problem: str) -> None:
    path = tmp_path / "agent.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(ConfigurationError, match=problem):
        read_configuration(path)


def test_the_program_ends_with_the_reason(tmp_path: Path) -> None:
    result = subprocess.run(
        [sys.executable, "-m", "nodeagent", "--config", write(tmp_path, node="")],
        env={"PYTHONPATH": str(PLATFORM)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 2
    assert "node: must be text" in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(
    "program", ["nodeagent.__main__", "nodeagent.shim.main", "nodeagent.batch.remote_runner"]
)
def test_other_versions_find_a_program_by_its_name(program: str) -> None:
    """An agent starts shims while its code is being replaced; batch jobs of an older one wait for days."""
    assert callable(import_module(program).main)


def test_the_agent_needs_no_django_and_the_shim_needs_next_to_nothing() -> None:
    def loaded(module: str) -> set[str]:
        script = f"import sys; sys.path.append({str(PLATFORM)!r}); import {module}; print(*sys.modules)"
        return set(subprocess.check_output([sys.executable, "-c", script], text=True).split())

    assert not {"django", "httpx", "rich", "pynvml", "psycopg", "redis"} & loaded("nodeagent.__main__")
    heavy = {"asyncio", "dataclasses", "typing", "subprocess", "logging", "socket", "inspect"}
    script = (
        f"import sys; sys.path.append({str(PLATFORM)!r}); import nodeagent.shim.main; print(*sys.modules)"
    )
    shim = set(subprocess.check_output([sys.executable, "-I", "-S", "-c", script], text=True).split())
    assert not heavy & shim


def test_a_token_does_not_cross_a_network_in_the_clear(tmp_path: Path) -> None:
    elsewhere = write(tmp_path, server_url="http://gpu.example.org")
    started = subprocess.run(
        [sys.executable, "-m", "nodeagent", "--config", elsewhere],
        env={"PYTHONPATH": str(PLATFORM)},
        capture_output=True,
        text=True,
    )
    assert started.returncode == 2
    assert "server_url: over http:// to another machine" in started.stderr
    require_encryption(read_configuration(elsewhere), insecure=True)
    for server in ("http://127.0.0.1:8000", "http://localhost", "https://gpu.example.org"):
        require_encryption(read_configuration(write(tmp_path, server_url=server)), insecure=False)


@pytest.mark.parametrize(("problem", "code"), [("", 0), ("Nothing isolates jobs here.", 1)])
def test_a_node_is_checked_without_a_server(
    tmp_path: Path,
    problem: str,
    code: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = write(tmp_path, checkpoint_folder="checkpoints")
    monkeypatch.setattr(Isolation, "_find_problem", lambda self: problem)
    monkeypatch.setattr(sys, "argv", ["nodeagent", "--config", str(file), "--check"])
    assert main() == code
    assert json.loads(capsys.readouterr().out)["problem"] == problem


def test_the_files_in_the_operators_handbook_are_read(tmp_path: Path):
    handbook = Path(__file__).parents[2] / "docs" / "operating.md"
    files = [
        text for text in re.findall(r"```json\n(.*?)```", handbook.read_text(), re.DOTALL) if '"node"' in text
    ]
    kinds = []
    for text in files:
        (tmp_path / "agent.json").write_text(text)
        kinds.append(read_configuration(tmp_path / "agent.json").inventory.kind)
    assert kinds == ["nvml", "simulated"]
