"""What nodes, users and servers install: each wheel by itself, in an environment that has nothing else."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from controlplane.embedded import ports
from tests.patience import PATIENCE_SECONDS, until

ROOT = Path(__file__).resolve().parents[1]
PROJECTS = {
    "allotment-agent": ROOT / "platform" / "nodeagent",
    "allotment": ROOT / "platform" / "allot",
    "allotment-server": ROOT,
}


def declared(name: str) -> dict:
    return tomllib.loads((PROJECTS[name] / "pyproject.toml").read_text())["project"]


def test_they_have_one_version_and_ask_for_one_another_at_it() -> None:
    (version,) = {declared(name)["version"] for name in PROJECTS}
    asked = [
        each for name in PROJECTS for each in declared(name)["dependencies"] if each.startswith("allotment")
    ]
    assert asked
    assert all(each.endswith(f"=={version}") for each in asked)


class Environment:
    """A virtual environment, and a folder that has nothing of the project in it."""

    def __init__(self, folder: Path, wheels: Path, *requirements: str) -> None:
        self.folder, self.bin = folder, folder / "environment" / "bin"
        folder.mkdir()
        self.variables = {
            name: value for name, value in os.environ.items() if name in ("PATH", "LANG") or "PIP_" in name
        }
        self.variables["HOME"] = str(folder)
        subprocess.run([sys.executable, "-m", "venv", folder / "environment"], check=True)
        pip = [self.bin / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        limits = ["--constraint", ROOT / "constraints.txt", "--find-links", wheels]
        subprocess.run([*pip, *limits, *requirements], check=True, timeout=10 * PATIENCE_SECONDS)

    def run(self, command: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        argv = [self.bin / command, *arguments]
        return subprocess.run(
            argv,
            cwd=self.folder,
            env=self.variables,
            capture_output=True,
            text=True,
            timeout=2 * PATIENCE_SECONDS,
        )

    def packages(self) -> set[str]:
        listed = self.run("python", "-m", "pip", "list", "--format=json").stdout
        return {each["name"].lower() for each in json.loads(listed)}


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheels")
    for project in PROJECTS.values():
        pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
        subprocess.run([*pip, "--wheel-dir", folder, project], check=True, timeout=5 * PATIENCE_SECONDS)
    return folder


@pytest.mark.slow
def test_each_has_its_licence_and_only_its_own_packages(wheels: Path) -> None:
    packages = {}
    for wheel in wheels.glob("*.whl"):
        names = zipfile.ZipFile(wheel).namelist()
        assert any(name.endswith("licenses/LICENSE") for name in names)
        packages[wheel.name.partition("-")[0]] = {
            name.partition("/")[0] for name in names if "dist-info" not in name
        }
    assert packages == {
        "allotment_agent": {"nodeagent"},
        "allotment": {"allot"},
        "allotment_server": {"controlplane", "scheduler", "tenants"},
    }


@pytest.mark.slow
def test_an_agent_needs_next_to_nothing(wheels: Path, tmp_path: Path) -> None:
    environment = Environment(tmp_path / "agent", wheels, "allotment-agent")
    assert environment.packages() - {"pip", "setuptools"} == {
        "allotment-agent",
        "nvidia-ml-py",
        "websockets",
        *("httpcore", "certifi", "h11"),
    }
    helped = environment.run("allotment-agent", "--help")
    assert (helped.returncode, helped.stderr) == (0, "")
    refused = environment.run("allotment-agent", "--config", "missing.json")
    assert refused.returncode == 2
    assert "missing.json" in refused.stderr


@pytest.mark.slow
def test_a_user_has_the_command_and_what_training_imports(wheels: Path, tmp_path: Path) -> None:
    environment = Environment(tmp_path / "user", wheels, "allotment[train]")
    assert not environment.packages() & {"django", "scipy", "numpy", "matplotlib", "pydantic"}
    assert f"allot {declared('allotment')['version']}" in environment.run("allot", "version").stdout
    nobody = environment.run("allot", "ls")
    assert nobody.returncode == 2
    assert "allot login" in nobody.stderr
    assert environment.run("python", "-c", "import allot.training").returncode == 0


@pytest.fixture(scope="module")
def server(wheels: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    folder = tmp_path_factory.mktemp("installed") / "server"
    return Environment(folder, wheels, "allotment-server[embedded]")


@pytest.fixture
def platform(server: Environment) -> Iterator[httpx.Client]:
    """One that runs from wheels alone, demonstration and all; the client is signed in as its operator."""
    port = ports.pick()
    argv = [server.bin / "allotment-server", "up", "--port", str(port)]
    log = server.folder / "up.log"
    with (
        log.open("w") as output,
        subprocess.Popen(
            argv, cwd=server.folder, env=server.variables, stdout=output, stderr=output
        ) as process,
    ):

        def operator_password() -> str | None:
            assert process.poll() is None, log.read_text()
            found = re.search(r"operator +operator +(\S+)", log.read_text())
            return found[1] if found else None

        try:
            password = until(operator_password, "the platform to start", seconds=3 * PATIENCE_SECONDS)
            with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=PATIENCE_SECONDS) as client:
                account = {"username": "operator", "password": password}
                client.post("/api/v1/session", json=account).raise_for_status()
                yield client
        finally:
            process.terminate()
            process.wait(timeout=PATIENCE_SECONDS)


@pytest.mark.slow
def test_a_server_runs_from_its_wheels(platform: httpx.Client, server: Environment) -> None:
    assert platform.get("/readyz").status_code == 200
    page = platform.get("/")
    assert page.status_code == 200
    script = re.search(r'src="(/static/[^"]+\.js)"', page.text)
    assert script is not None
    assert platform.get(script[1]).status_code == 200
    assert (server.folder / ".allot" / "env").is_file()
    assert server.run("allotment-server", "check").returncode == 0

    def a_job_of_the_demonstration_has_trained() -> bool:
        jobs = platform.get("/api/v1/jobs", params={"q": "digits-quick"}).json()["results"]
        return [job["state"] for job in jobs] == ["succeeded"]

    until(
        a_job_of_the_demonstration_has_trained,
        "a job of the demonstration to train",
        seconds=3 * PATIENCE_SECONDS,
    )


@pytest.mark.slow
def test_the_simulator_says_what_its_figures_need(server: Environment) -> None:
    (server.folder / "workload.json").write_text(json.dumps({"jobs": 20}))
    workload = ["--generate", "workload.json", "--cluster", "v100=8:4"]
    shown = server.run("allotment-server", "simulate", *workload)
    assert shown.returncode == 0, shown.stderr
    assert "fifo" in shown.stdout
    refused = server.run("allotment-server", "simulate", *workload, "--report", "report")
    assert refused.returncode == 2
    assert "allotment-server[simulator]" in refused.stderr
