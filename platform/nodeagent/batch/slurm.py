"""Slurm as a batch system, by its command line, which is the same in all versions of the last years.

No accounting database is needed: `squeue` lists jobs that ended for MinJobAge seconds, 300 unless set.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import re
from collections.abc import Iterable, Mapping

from nodeagent.batch.system import BatchError, BatchJob, BatchJobState, BatchJobStatus, BatchNode
from nodeagent.configuration import Slurm
from nodeagent.output.logs import decode_text

ANSWER_SECONDS = 20.0
MEGABYTE = 2**20
#: Free text comes last, and no other field has a bar in it.
JOBS_FORMAT = "%A|%T|%j|%r"
ALIVE: Mapping[str, BatchJobState] = {
    "PENDING": "waiting",
    "CONFIGURING": "waiting",
    "REQUEUED": "waiting",
    "REQUEUE_HOLD": "waiting",
    "REQUEUE_FED": "waiting",
    "SPECIAL_EXIT": "waiting",
    "RESV_DEL_HOLD": "waiting",
    "RUNNING": "running",
    "COMPLETING": "running",
    "SIGNALING": "running",
    "STAGE_OUT": "running",
    "STOPPED": "running",
    "SUSPENDED": "running",
    "RESIZING": "running",
}
#: Slurm does not reach the node, so that it cannot know whether anything is alive there.
SILENT = frozenset({"NODE_FAIL", "BOOT_FAIL", "REVOKED"})
#: Parts of a node's state in which nothing new starts there.
CLOSED = frozenset(
    (
        *("DOWN", "DRAIN", "DRAINED", "DRAINING", "FAIL", "FAILING", "MAINT", "MAINTENANCE"),
        *("NOT_RESPONDING", "NO_RESPOND", "INVAL", "INVALID_REG", "FUTURE", "UNKNOWN"),
        *("REBOOT_REQUESTED", "REBOOT_ISSUED", "POWERED_DOWN", "POWERING_DOWN"),
    )
)
FIELD = re.compile(r"(\w+)=(.*?)(?=\s+\w+=|$)")
GPUS = re.compile(r"\bgpu:(?:([^:(),]+):)?(\d+)")


class SlurmSystem:
    """The nodes of one partition that were given to Allotment."""

    name = "Slurm"

    def __init__(self, configuration: Slurm) -> None:
        self.configuration = configuration

    async def submit(self, job: BatchJob) -> str:
        script = f"#!/bin/sh\nexec {job.command}\n"
        said = await _answer(["sbatch", *sbatch_arguments(self.configuration, job)], script)
        # Where there are several clusters, NUMBER;CLUSTER.
        return said.strip().partition(";")[0]

    async def jobs(self) -> Mapping[str, BatchJobStatus]:
        own = f"--user={os.geteuid()}"
        lines = await _answer(["squeue", "--noheader", "--states=all", own, f"--format={JOBS_FORMAT}"])
        return read_jobs(lines.splitlines())

    async def cancel(self, name: str) -> None:
        # The first kills what runs, the batch script too, without Slurm's own grace; the second what waits.
        await _answer(["scancel", "--full", "--signal=KILL", "--state=RUNNING", f"--name={name}"])
        await _answer(["scancel", f"--name={name}"])

    async def nodes(self) -> Mapping[str, BatchNode]:
        names = ",".join(self.configuration.nodes)
        lines = await _answer(["scontrol", "show", "node", names, "--details", "--oneliner"])
        nodes = dict(read_node(line, self.configuration) for line in lines.splitlines() if line.strip())
        if missing := sorted(set(self.configuration.nodes) - set(nodes)):
            raise BatchError(f"it has no node {missing[0]}")
        return nodes


def sbatch_arguments(configuration: Slurm, job: BatchJob) -> list[str]:
    """Return what has Slurm run the job. The site's own flags come last and win."""
    arguments = [
        f"--job-name={job.name}",
        f"--partition={configuration.partition}",
        f"--nodelist={job.node}",
        "--nodes=1",
        "--ntasks=1",
        f"--cpus-per-task={max(1, math.ceil(job.cpus))}",
        # The control plane tries again itself, and perhaps elsewhere.
        "--no-requeue",
        # Nothing of the agent's environment.
        "--export=NIL",
        "--chdir=/",
        "--input=/dev/null",
        f"--output={job.log.replace('%', '%%')}",
        "--open-mode=append",
        "--parsable",
    ]
    if job.gpus:
        model = f"{configuration.gres_type}:" if configuration.gres_type else ""
        arguments.append(f"--gres=gpu:{model}{job.gpus}")
    if job.memory_bytes:
        arguments.append(f"--mem={math.ceil(job.memory_bytes / MEGABYTE)}M")
    if configuration.account:
        arguments.append(f"--account={configuration.account}")
    return [*arguments, *configuration.flags]


def read_jobs(lines: Iterable[str]) -> dict[str, BatchJobStatus]:
    """Return jobs by name. If two have the same name, the one that is alive counts."""
    jobs: dict[str, BatchJobStatus] = {}
    for line in lines:
        number, word, name, reason = [*line.split("|", 3), "", "", ""][:4]
        state: BatchJobState = ALIVE.get(word) or ("lost" if word in SILENT else "ended")
        words = word if reason in ("", "None") else f"{word} ({reason})"
        job = BatchJobStatus(number=number, state=state, words=words)
        if name not in jobs or state in ("waiting", "running"):
            jobs[name] = job
    return jobs


def read_node(line: str, configuration: Slurm) -> tuple[str, BatchNode]:
    """Return a node's name and what a line of `scontrol show node --details --oneliner` says of it."""
    fields: dict[str, str] = dict(FIELD.findall(line.strip()))
    try:
        name, gres = fields["NodeName"], GPUS.findall(fields.get("Gres", ""))
        states = re.split(r"[+*~#!%$@^-]+", fields["State"].rstrip("*~#!%$@^-"))
        closed = [state for state in states if state in CLOSED]
        reason = re.sub(r"\s*\[[^\]]*\]$", "", fields.get("Reason", ""))
        problem = f"Slurm: {' '.join(closed)}{f', {reason}' if reason else ''}" if closed else ""
        return name, BatchNode(
            gpu_model=configuration.gpu_model or next((model for model, _ in gres if model), ""),
            gpu_memory_bytes=configuration.gpu_memory_bytes,
            gpus=sum(int(count) for _, count in gres),
            gpus_in_use=sum(int(count) for _, count in GPUS.findall(fields.get("GresUsed", ""))),
            cpus=float(fields.get("CPUEfctv") or fields["CPUTot"]),
            memory_bytes=int(fields["RealMemory"]) * MEGABYTE,
            address=fields.get("NodeAddr") or name,
            problem=problem,
        )
    except (KeyError, ValueError) as error:
        raise BatchError(f"its answer is not understood ({error}): {line[:200]}") from error


async def _answer(command: list[str], given: str = "") -> str:
    """Return what the command writes; raise BatchError with its complaint, or when it takes too long."""
    try:
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
    except OSError as error:
        raise BatchError(f"{command[0]} cannot be run: {error.strerror}") from error
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            answer, complaint = await process.communicate(given.encode())
    except TimeoutError as error:
        raise BatchError(f"{command[0]} took longer than {ANSWER_SECONDS:g} s") from error
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
    if process.returncode != 0:
        lines = decode_text(complaint).strip().splitlines()
        raise BatchError(lines[-1] if lines else f"{command[0]} ended with {process.returncode}")
    return answer.decode(errors="replace")
