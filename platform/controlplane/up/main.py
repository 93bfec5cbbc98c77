"""The sequence of a start, from an empty folder to a page that answers, and back to nothing."""

import argparse
import asyncio
import contextlib
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from controlplane.config import PROJECT_ROOT, home
from controlplane.embedded import ports
from controlplane.embedded.postgres import Postgres, PostgresError
from controlplane.embedded.redis import Redis
from controlplane.up import children
from controlplane.up.commands import Commands, commands
from controlplane.up.console import Console, StartError
from controlplane.up.home import Home
from controlplane.up.supervisor import Supervisor, in_foreground, together


def main(arguments: list[str]) -> int:
    """Run the platform until it has to stop; return the exit status for the shell."""
    parser = argparse.ArgumentParser(
        prog="manage.py up", description="Run the whole platform on this machine."
    )
    add_arguments(parser)
    return run(parser.parse_args(arguments))


def run(options: argparse.Namespace) -> int:
    console = Console()
    home = Home(options.home)
    try:
        home.create()
        with home.lock(_url(options)):
            _require_free_port(options.host, options.port)
            environment = children.python_environment(home.path, options.host, options.unsafe_jobs)
            start = _Start(options, home, console, environment)
            asyncio.run(in_foreground(start, console, home.logs))
    except (StartError, PostgresError) as error:
        console.fail(str(error))
        return 1
    return 0


@dataclass
class _Start:
    """The work of a start, in order; each step reports when what it started really answers."""

    options: argparse.Namespace
    home: Home
    console: Console
    environment: dict[str, str]
    logins: list[dict[str, Any]] = field(default_factory=list)
    #: What keeps the demonstration's jobs apart, in words.
    isolation: dict[str, Any] = field(default_factory=lambda: {"summary": "", "warnings": []})

    async def __call__(self, supervisor: Supervisor) -> None:
        self.supervisor = supervisor
        began = time.monotonic()
        databases = self._settle_databases()
        # Django takes a second to be imported, in which the databases start.
        async with commands(self.environment, PROJECT_ROOT, self.home.logs / "setup.log") as manage:
            try:
                await together(self._start_ticking(databases), self._start_serving(databases, manage))
                if self.options.demo:
                    await self._start_agents()
                    (self.isolation,) = await manage.run("demo", "isolation")
            except BaseException:
                # A password is made once: show it even when the start fails or is broken off after it.
                if any(login["password"] for login in self.logins):
                    self.console.box(_table(self.logins))
                raise
            self.console.done("everything works", time.monotonic() - began)
            self.console.box(self._summary())
            for warning in self.isolation["warnings"]:
                self.console.warn(warning)
            self.console.follow = self.options.follow
            if self.options.demo:
                await self._submit_demonstration(manage)

    def _settle_databases(self) -> dict[str, Postgres | Redis]:
        """Choose those that the environment does not name; write them for all others to `<home>/env`."""
        values = self.home.environment()
        if "ALLOT_PROXY_PORT" not in values:
            pages = ports.next_free(self.options.port, self.options.host)
            self.environment.setdefault("ALLOT_PROXY_PORT", str(pages))
        if "ALLOT_PUBLIC_URL" not in values:
            self.environment.setdefault("ALLOT_PUBLIC_URL", _url(self.options))
        if self.options.demo and "ALLOT_CHECKPOINT_FOLDER" not in values:
            self.environment.setdefault("ALLOT_CHECKPOINT_FOLDER", str(self.home.checkpoints))
        chosen: dict[str, Postgres | Redis] = {}
        addresses = {name: self.environment.get(name) for name in children.SERVER_ONLY}
        if not addresses["DATABASE_URL"]:
            chosen["PostgreSQL"] = postgres = Postgres(
                data=self.home.path / "postgres",
                password=values["ALLOT_EMBEDDED_POSTGRES_PASSWORD"],
                port=ports.pick(_port_of(values.get("DATABASE_URL"))),
            )
            addresses["DATABASE_URL"] = postgres.url
            addresses["ALLOT_MIGRATION_DATABASE_URL"] = postgres.owner_url
        if not addresses["REDIS_URL"]:
            chosen["Redis"] = redis = Redis(
                folder=self.home.path / "redis",
                password=values["ALLOT_EMBEDDED_REDIS_PASSWORD"],
                port=ports.pick(_port_of(values.get("REDIS_URL"))),
            )
            addresses["REDIS_URL"] = redis.url
        self.home.write_environment(
            {name: value for name, value in (values | addresses).items() if value is not None}
        )
        return chosen

    async def _start_ticking(self, databases: dict[str, Postgres | Redis]) -> None:
        """Redis and beat, which needs no tables: its first ticks wait for the worker."""
        await self._start_database("Redis", databases)
        await self.supervisor.start("beat", [children.beat(self.environment)])

    async def _start_serving(self, databases: dict[str, Postgres | Redis], manage: Commands) -> None:
        """PostgreSQL, the tables in it, then what uses them."""
        await self._start_database("PostgreSQL", databases)
        began = time.monotonic()
        await manage.run("migrate", "--verbosity", "0")
        self.console.done("tables", time.monotonic() - began)
        web = children.web(self.environment, self.options.host, self.options.port)
        await together(
            self.supervisor.start("web", [web]),
            self.supervisor.start("worker", [children.worker(self.environment)]),
            self._prepare(manage),
        )

    async def _start_database(self, title: str, databases: dict[str, Postgres | Redis]) -> None:
        if title not in databases:
            return
        server = databases[title]
        began = time.monotonic()
        # The first time this takes a second, in which other things start.
        await asyncio.to_thread(server.prepare)
        await self.supervisor.start(title, [children.embedded(server)], began=began)
        await asyncio.to_thread(server.finish)

    async def _prepare(self, manage: Commands) -> None:
        """Ensure that there is a user who can sign in, and what the demonstration needs."""
        create = ["create_operator", "--username", "operator", "--if-missing", "--print-password"]
        self.logins += [login | {"role": "operator"} for login in await manage.run(*create)]
        if self.options.demo:
            began = time.monotonic()
            arguments = ["--server-url", _url(self.options)]
            if self.options.unsafe_jobs:
                arguments.append("--unsafe-jobs")
            for answer in await manage.run("demo", "prepare", *arguments):
                self.logins += answer["logins"]
            self.console.done("demonstration tenants", time.monotonic() - began)

    async def _start_agents(self) -> None:
        specs = children.agents(self.environment, self.home.agent_configurations)
        await self.supervisor.start(f"{len(specs)} node agents", specs)

    async def _submit_demonstration(self, manage: Commands) -> None:
        """Submit jobs to look at, once; some only after others run, so the start does not wait for it."""
        began = time.monotonic()
        try:
            await manage.run("demo", "jobs")
            self.console.done("demonstration jobs", time.monotonic() - began)
            await self.supervisor.start("stream", [children.stream(self.environment)])
        except StartError as error:
            self.console.warn(str(error))

    def _summary(self) -> list[str]:
        lines = [f"Allotment runs at  {_url(self.options)}", "", *_table(self.logins), ""]
        if not all(login["password"] for login in self.logins):
            lines.append("A new password: manage.py reset_password NAME")
        if self.isolation["summary"]:
            lines.append(f"Jobs: {self.isolation['summary']}")
        return [*lines, f"Logs: {self.home.logs} (--follow shows them here)", "Stop: Ctrl-C"]


def _table(logins: list[dict[str, Any]]) -> list[str]:
    unknown = "(as printed at the first start)"
    return [f"{who['role']:<10} {who['username']:<12} {who['password'] or unknown}" for who in logins]


def _require_free_port(host: str, port: int) -> None:
    if ports.is_free(port, host):
        return
    holder = ports.holder(port)
    other = ports.next_free(port, host) or port + 1
    raise StartError(
        f"Port {port} on {host} is taken{f' by {holder}' if holder else ''}. "
        f'Choose another: make up ARGS="--port {other}", or manage.py up --port {other}.'
    )


def _url(options: argparse.Namespace) -> str:
    host = children.reachable(options.host)
    return f"http://{f'[{host}]' if ':' in host else host}:{options.port}"


def _port_of(url: str | None) -> int | None:
    with contextlib.suppress(ValueError):
        return urlsplit(url).port if url else None
    return None


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--host", default="127.0.0.1", help="address to listen on (default: %(default)s, this machine only)"
    )
    parser.add_argument(
        "--port", type=_port, default=8000, help="port of the page and the API (default: %(default)s)"
    )
    parser.add_argument(
        "--home",
        type=lambda text: Path(text).absolute(),
        default=home(),
        help="folder of databases, secrets and logs (default: %(default)s)",
    )
    parser.add_argument(
        "--unsafe-jobs",
        action="store_true",
        help="also run jobs where nothing isolates them: on this machine, and on nodes that report so even if"
        " --host lets other machines in",
    )
    parser.add_argument(
        "--follow",
        action="store_true",
        help="show here what each process writes to its log, too",
    )
    parser.add_argument(
        "--no-demo",
        dest="demo",
        action="store_false",
        help="start empty: no demonstration nodes, tenants and jobs",
    )


def _port(text: str) -> int:
    if not text.isdigit() or not 1 <= int(text) <= 65_535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port: give a number from 1 to 65535")
    return int(text)
