"""A whole platform for a test: `manage.py up` as a person starts it, and node agents beside it."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import psutil
import psycopg

from controlplane.embedded import ports
from controlplane.embedded.spawn import Spawn
from tests.patience import PATIENCE_SECONDS, until
from tests.processes import children_of, command_of, processes_with_command, signal_process

ROOT = Path(__file__).resolve().parents[2]
#: Short leases, so that a lost node is lost within a test's patience; not so short that one runs out while an
#: agent or a server that was killed starts again on a busy machine.
FAST = {"ALLOT_NODE_LEASE_SECONDS": "12", "ALLOT_NODE_LEASE_MARGIN_SECONDS": "3", "ALLOT_ROUND_SECONDS": "2"}
SERVER_VARIABLES = ("DATABASE_URL", "REDIS_URL", "ALLOT_SECRET_KEY", "ALLOT_HOME")
FINAL = {"succeeded", "failed", "cancelled"}
# How each child of the supervisor is told from the others.
CHILDREN = {
    "web": "uvicorn",
    "worker": "celery -A controlplane.celery worker|celeryd",
    "beat": "celery -A controlplane.(beat|celery) beat",
    "redis": "redis-server",
    "postgres": "bin/postgres",
}


#: The second is its name in the first agent, which the upgrade test runs.
PROGRAM_OF_SHIMS = re.compile(r"nodeagent\.(shim|minder)\b")


@dataclass
class Agent:
    """A node agent as its own process; `kill` and `start` it as often as the test wants."""

    name: str
    configuration: Path
    log: Path
    process: subprocess.Popen | None = None
    #: What starts it, without its arguments, and the checkout whose agent that is.
    program: Sequence[str] = (sys.executable, "-m", "nodeagent")
    root: Path = ROOT

    def start(self) -> None:
        environment = {name: value for name, value in os.environ.items() if name not in SERVER_VARIABLES}
        environment["PYTHONPATH"] = f"{self.root / 'platform'}{os.pathsep}{self.root}"
        argv = [*self.program, "--config", str(self.configuration)]
        # Ends with the test run, even when that is killed.
        with self.log.open("a") as output:
            self.process = Spawn(argv, self.root, environment).popen(output=output.fileno())

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def end(self) -> None:
        """Stop it in good order; then whatever shims are left."""
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(PATIENCE_SECONDS)
            except subprocess.TimeoutExpired:
                self.kill()
        for shim in self.shims():
            signal_process(shim, signal.SIGTERM)
        _, alive = psutil.wait_procs(self.shims(), timeout=PATIENCE_SECONDS)
        for shim in alive:
            signal_process(shim)

    def shims(self) -> list[psutil.Process]:
        work = json.loads(self.configuration.read_text())["work_folder"]
        return processes_with_command(
            lambda words: any(map(PROGRAM_OF_SHIMS.search, words)) and any(work in word for word in words)
        )


@dataclass
class Installation:
    """One running platform. `api` speaks as the operator."""

    home: Path
    port: int
    #: The checkout whose platform that is.
    root: Path = ROOT
    supervisor: subprocess.Popen | None = None
    output: list[str] = field(default_factory=list)
    agents: list[Agent] = field(default_factory=list)
    password: str = ""
    #: Where it listens.
    host: str = "127.0.0.1"
    settings: Mapping[str, str] = field(default_factory=lambda: FAST)

    @property
    def url(self) -> str:
        return f"http://{self.host}:{self.port}"

    @property
    def checkpoints(self) -> Path:
        """The folder that the nodes share."""
        return self.home.parent / "checkpoints"

    def start(self, *arguments: str) -> None:
        environment = {name: value for name, value in os.environ.items() if name not in SERVER_VARIABLES}
        command = [sys.executable, str(self.root / "manage.py"), "up", "--home", str(self.home)]
        command += ["--host", self.host, "--port", str(self.port), *arguments]
        with (self.home.parent / "up.log").open("ab") as log:
            start = log.tell()
            # Ends with the test run, even when that is killed.
            self.supervisor = Spawn(command, self.root, environment | self.settings).popen(
                output=log.fileno()
            )

        def says_ready() -> str | None:
            text = (self.home.parent / "up.log").read_bytes()[start:].decode()
            if self.supervisor.poll() is not None:
                raise AssertionError(f"the platform did not start:\n{text}")
            return text if "Allotment runs at" in text and "Ctrl-C" in text else None

        text = until(says_ready, "the platform to start", seconds=2 * PATIENCE_SECONDS)
        if found := re.search(r"operator\s+operator\s+(\S+)", text):
            self.password = self.password or found.group(1)

    def sign_in(self, scopes: Sequence[str] = ("read", "submit", "manage", "operate")) -> None:
        """Speak as the operator from now on, by a token."""
        self.api = httpx.Client(base_url=f"{self.url}/api/v1/", timeout=PATIENCE_SECONDS)
        answer = self.api.post("session", json={"username": "operator", "password": self.password})
        answer.raise_for_status()
        self.api.headers["X-CSRFToken"] = answer.json()["csrf_token"]
        token = self.call("POST", "tokens", {"name": "tests", "scopes": scopes})["token"]
        self.api = httpx.Client(
            base_url=f"{self.url}/api/v1/",
            timeout=PATIENCE_SECONDS,
            headers={"Authorization": f"Bearer {token}"},
        )
        self.token = token

    def call(self, method: str, path: str, body: Any = None) -> Any:
        answer = self.api.request(method, path, json=body)
        assert answer.is_success, f"{method} {path}: {answer.status_code} {answer.text}"
        return answer.json() if answer.content else None

    def add_node(
        self,
        name: str,
        *,
        gpus: int,
        gpu_model: str = "V100",
        rack: str = "rack-1",
        program: Sequence[str] = Agent.program,
        root: Path = ROOT,
        **fields: Any,
    ) -> Agent:
        """Register a node as an operator does, and run an agent with that many simulated GPUs.

        `program` starts the agent of the checkout `root`; `fields` are more, or others, of its configuration.
        """
        token = self.call("POST", "nodes", {"name": name, "rack": rack})["token"]
        folder = self.home.parent / "nodes"
        folder.mkdir(exist_ok=True)
        configuration = folder / f"{name}.json"
        memory = 16 * 2**30
        configuration.write_text(
            json.dumps(
                {
                    "server_url": self.url,
                    "node": name,
                    "token": token,
                    "work_folder": str(folder / name),
                    "checkpoint_folder": str(self.checkpoints),
                    "address": "127.0.0.1",
                    "examples_folder": str(ROOT / "examples"),
                    "python": sys.executable,
                    "inventory": {
                        "kind": "simulated",
                        "gpu_model": gpu_model,
                        "gpus": [
                            {"index": i, "socket": 0, "switch": i // 2, "memory_bytes": memory}
                            for i in range(gpus)
                        ],
                        "cpus": 16,
                        "memory_bytes": 64 * 2**30,
                    },
                    **fields,
                }
            )
        )
        configuration.chmod(0o600)
        agent = Agent(name, configuration, folder / f"{name}.log", program=program, root=root)
        agent.start()
        self.agents.append(agent)
        until(lambda: self.call("GET", f"nodes/{name}")["state"] == "ready", f"node {name} to be ready")
        return agent

    def submit(self, **spec: Any) -> int:
        return self.call("POST", "jobs", spec)["id"]

    def job(self, job_id: int) -> dict[str, Any]:
        return self.call("GET", f"jobs/{job_id}")

    def wait_for(self, job_id: int, *states: str, seconds: float = 2 * PATIENCE_SECONDS) -> dict[str, Any]:
        """Wait until the job is in one of the states; one that ended otherwise fails the test at once."""

        def reached() -> dict[str, Any] | None:
            try:
                job = self.job(job_id)
            except (httpx.TransportError, AssertionError):
                return None  # the server is being restarted
            if job["state"] in states:
                return job
            assert job["state"] not in FINAL, f"job {job_id} ended: {job}"
            return None

        return until(reached, f"job {job_id} to be {' or '.join(states)}", seconds=seconds)

    def cancel_everything(self) -> None:
        """Cancel every job that has not ended, and wait until no GPU is held."""
        self.call("POST", "jobs/actions", {"action": "cancel", "filter": {"state": "queued,running"}})
        until(lambda: self.call("GET", "cluster")["gpus"]["held"] == 0, "no GPU to be held")

    def pid_of(self, child: str) -> int:
        """The process of a child of the supervisor; the oldest, where it has children of its own."""
        assert self.supervisor is not None
        for process in children_of(self.supervisor.pid):
            if re.search(CHILDREN[child], " ".join(command_of(process))):
                return process.pid
        raise AssertionError(f"no child {child!r} is running")

    def database(self) -> psycopg.Connection:
        environment = dict(
            line.split("=", 1)
            for line in (self.home / "env").read_text().splitlines()
            if "=" in line and not line.startswith("#")
        )
        return psycopg.connect(environment["DATABASE_URL"], autocommit=True)

    def manage(self, *arguments: str) -> str:
        environment = {name: value for name, value in os.environ.items() if name not in SERVER_VARIABLES}
        done = subprocess.run(
            [sys.executable, str(self.root / "manage.py"), *arguments],
            env=environment | self.settings | {"ALLOT_HOME": str(self.home)},
            capture_output=True,
            text=True,
            cwd=self.root,
            timeout=2 * PATIENCE_SECONDS,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def stop(self) -> None:
        for agent in self.agents:
            agent.end()
        if self.supervisor is not None and self.supervisor.poll() is None:
            self.supervisor.send_signal(signal.SIGINT)
            self.supervisor.wait(PATIENCE_SECONDS)


@contextlib.contextmanager
def installation(folder: Path, prepare: Callable[[Path], None] | None = None) -> Iterator[Installation]:
    """A running, empty platform with a signed-in operator. `prepare` lays out its home before it starts."""
    platform = Installation(home=folder / "home", port=ports.pick())
    platform.settings = {
        **FAST,
        "ALLOT_CHECKPOINT_FOLDER": str(platform.checkpoints),
        "ALLOT_PUBLIC_URL": platform.url,
    }
    if prepare is not None:
        prepare(platform.home)
    try:
        platform.start("--no-demo")
        platform.sign_in()
        yield platform
    finally:
        platform.stop()
