"""run: submit a job, stay with it, and exit as it did."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from allot.commands.logs import INTERRUPTED, exit_code_of, say_goes_on, show_log
from allot.commands.options import connect
from allot.commands.submit import (
    PartitionsOption,
    SubmitCommand,
    given_flags,
    specifications,
    submitted_line,
    take_tenant,
    with_spec_flags,
)
from allot.commands.uploading import UploadOption, bring_code, packed_code
from allot.errors import Busy, Refused, Unreachable, WrongUse
from allot.output import say
from allot.specfiles import pairs
from allot.times import span_seconds

if TYPE_CHECKING:
    from types import FrameType

    from allot.client import Client
    from allot.schema import Job

#: Exit codes for what a job cannot say itself (docs/cli.md).
CANCELLED = 121
NOT_STARTED = 122
LOST = 123
#: While it sleeps, it checks this often whether the user wants it to stop.
_GLANCE_SECONDS = 0.1
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Left(Exception):
    """The user left, and the job goes on."""


class Staying:
    """Stays with a job: the first Ctrl-C asks to cancel it, the second leaves it as it is."""

    def __init__(self, client: Client, *, detaches: bool) -> None:
        self._client = client
        self._detaches = detaches
        self._asks = self._asked = False
        self._job: int | None = None

    @contextmanager
    def listening(self) -> Iterator[None]:
        before = {number: signal.signal(number, self._on_signal) for number in _SIGNALS}
        self._client.sleep = self.sleep
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        # Nothing is sent from here: a request may be under way.
        if self._asks or (self._detaches and self._job is not None):
            raise Left
        self._asks = True

    def began(self, job_id: int) -> None:
        self._job = job_id
        self.glance()

    def sleep(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            self.glance()
            time.sleep(min(left, _GLANCE_SECONDS))

    def glance(self) -> None:
        """Ask to cancel the job, once, where the user wants that."""
        if not self._asks or self._asked or self._job is None:
            return
        if self._detaches:
            raise Left
        self._asked = True
        try:
            self._client.cancel(self._job)
        except Refused:
            # It has ended by itself, which will be said in a moment.
            return
        say(f"Cancelling job {self._job}: it may write a checkpoint first. Ctrl-C again leaves it running.")


def run(
    ctx: typer.Context,
    files: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[FILE]",
            help="A specification in YAML or JSON, or an sbatch script; - reads standard input.",
        ),
    ] = None,
    detach_on_exit: Annotated[
        bool, typer.Option("--detach-on-exit", help="Leave the job running at the first Ctrl-C.")
    ] = False,
    reconnect: Annotated[
        str,
        typer.Option(
            "--reconnect",
            metavar="TIME",
            help="Give up when the server has been unreachable for this time.",
        ),
    ] = "5m",
    upload: UploadOption = None,
    map_partition: PartitionsOption = None,
    **given: Any,
) -> None:
    """Submit a job, print its output, and exit with its exit code: `allot run --gpus 1 -- python train.py`.

    Press Ctrl-C once to cancel the job and wait for its end; press it twice to leave the job running. If a
    signal ended the job, the exit code is 128 plus its number. Further exit codes: 121 the job was cancelled,
    122 it failed without an exit code (for example before its start), 123 the server was unreachable for
    longer than --reconnect, 130 the job was left running.
    """
    patience = span_seconds(reconnect, "--reconnect")
    partitions = pairs(map_partition or [], "--map-partition")
    sources = specifications(files or [], given_flags(ctx, given), partitions)
    if len(sources) > 1 or sources[0].spec.get("array"):
        raise WrongUse("`allot run` runs one job. Submit several, and arrays, with `allot submit`.")
    tenant = take_tenant(sources)
    with connect(patient=True) as client, packed_code(upload) as packed:
        tenant = bring_code(client, packed, sources, tenant)
        client.read_retry_seconds = patience
        staying = Staying(client, detaches=detach_on_exit)
        with staying.listening():
            raise typer.Exit(stay(client, staying, sources[0].spec, tenant))


def stay(client: Client, staying: Staying, spec: dict[str, Any], tenant: str | None) -> int:
    """Submit it, print its output and what happens to it, and return what to exit with."""
    try:
        submitted = client.submit(spec, tenant=tenant)
    except Left:
        say("Interrupted during the submission: `allot ls --mine` shows whether the job was submitted.")
        return INTERRUPTED
    job_id = submitted["id"]
    try:
        say(submitted_line(submitted))
        staying.began(job_id)
        tasks = submitted["spec"].get("tasks", [])
        several = sum(task.get("replicas", 1) for task in tasks) > 1
        show_log(client, job_id, everything=several, follow=True, after_each=staying.glance)
        return _code(client.job(job_id))
    except Left:
        say_goes_on([job_id])
        return INTERRUPTED
    except (Unreachable, Busy) as error:
        say(f"allot: {error} Gave up on the server; job {job_id} goes on there.")
        say(f"  See it with `allot logs -f {job_id}`, wait for its exit code with `allot wait {job_id}`.")
        return LOST
    except BrokenPipeError:
        # The reader of the output has seen enough.
        say_goes_on([job_id])
        return 128 + signal.SIGPIPE


def _code(job: Job) -> int:
    if job["state"] == "cancelled":
        return CANCELLED
    if job["state"] == "failed" and not job["exit_code"]:
        return NOT_STARTED
    return exit_code_of(job)


def register(app: typer.Typer) -> None:
    app.command(cls=SubmitCommand)(with_spec_flags(run))
