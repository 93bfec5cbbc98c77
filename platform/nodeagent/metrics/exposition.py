"""The agent's figures for Prometheus: its text format, by a small server that answers GET /metrics only.

GPUs have the names, labels and units of NVIDIA's DCGM exporter where there is a meaning in common, so that
dashboards made for it work: https://github.com/NVIDIA/dcgm-exporter, etc/default-counters.csv. No job has a
line of its own: each would be a new series for ever.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from nodeagent.measures import GPU_MEASURES
from nodeagent.messages import GpuSample, HostSample, Inventory

log = logging.getLogger(__name__)

REQUEST_SECONDS = 5.0
REQUEST_BYTES = 8 * 1024
#: When an address that is taken is tried again.
TAKEN_SECONDS = 30.0
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """All figures that are exposed, as they are now."""

    node: str
    inventory: Inventory
    gpus: tuple[GpuSample, ...]
    host: HostSample
    #: Attempts with processes here.
    attempts: int
    agent_cpu_seconds: float
    agent_memory_bytes: int


@dataclass(frozen=True, slots=True)
class _Family:
    """One metric with its samples: labels and value; None where there is no figure."""

    name: str
    kind: str
    help: str
    samples: Iterable[tuple[Mapping[str, str], float | None]]


def exposition(figures: Figures) -> str:
    """Return the figures in Prometheus's text format; what is not known has no line."""
    lines: list[str] = []
    for family in _families(figures):
        known = [(labels, value) for labels, value in family.samples if value is not None]
        if known:
            lines += [f"# HELP {family.name} {family.help}", f"# TYPE {family.name} {family.kind}"]
            lines += [f"{family.name}{_in_braces(labels)} {value:.15g}" for labels, value in known]
    return "\n".join(lines) + "\n"


def _families(figures: Figures) -> Iterator[_Family]:
    named = {gpu.index: gpu for gpu in figures.inventory.gpus}
    gpus = [
        (
            sample,
            {
                "gpu": str(sample.index),
                "UUID": named[sample.index].uuid,
                "modelName": figures.inventory.gpu_model,
                "Hostname": figures.node,
                # Not of DCGM: what was made up has to say so.
                **({"simulated": "true"} if sample.simulated else {}),
            },
        )
        for sample in figures.gpus
        if sample.index in named
    ]

    for measure in GPU_MEASURES:
        if measure.dcgm is not None:
            figures_of = ((labels, getattr(sample, measure.name)) for sample, labels in gpus)
            known = [(labels, value / measure.dcgm.size) for labels, value in figures_of if value is not None]
            yield _Family(measure.dcgm.name, "gauge", measure.dcgm.help, known)

    node = {"node": figures.node}
    host = figures.host
    for name, help, value in (
        ("cpu_percent", "CPU time used, of all CPUs", host.cpu_percent),
        ("memory_used_bytes", "Memory in use that cannot be given back at once", host.memory_used_bytes),
        ("disk_used_bytes", "Used on the file system of the work folder", host.disk_used_bytes),
        ("disk_total_bytes", "Size of the file system of the work folder", host.disk_total_bytes),
        ("network_received_bytes_per_second", "Received", host.network_received_bytes_per_second),
        ("network_sent_bytes_per_second", "Sent", host.network_sent_bytes_per_second),
        ("disk_read_bytes_per_second", "Read from disks", host.disk_read_bytes_per_second),
        ("disk_written_bytes_per_second", "Written to disks", host.disk_written_bytes_per_second),
        ("attempts", "Attempts that have processes here", figures.attempts),
    ):
        yield _Family(f"allot_node_{name}", "gauge", help, [(node, value)])
    yield _Family(
        "process_cpu_seconds_total", "counter", "CPU time of the agent", [({}, figures.agent_cpu_seconds)]
    )
    yield _Family(
        "process_resident_memory_bytes", "gauge", "Memory of the agent", [({}, figures.agent_memory_bytes)]
    )


def _in_braces(labels: Mapping[str, str]) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items()) + "}"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


async def keep_exposing(address: str, figures: Callable[[], Figures]) -> None:
    """Answer GET /metrics at HOST:PORT for ever; an address that is taken costs the agent nothing else."""
    host, _, port = address.rpartition(":")
    while True:
        try:
            server = await asyncio.start_server(
                lambda reader, writer: _answer(reader, writer, figures),
                host.strip("[]"),
                int(port),
                limit=REQUEST_BYTES,
            )
        except OSError as error:
            log.warning("Metrics cannot be offered at %s: %s", address, error)
            await asyncio.sleep(TAKEN_SECONDS)
            continue
        async with server:
            await server.serve_forever()


async def _answer(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, figures: Callable[[], Figures]
) -> None:
    with contextlib.suppress(OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        async with asyncio.timeout(REQUEST_SECONDS):
            request = await reader.readuntil(b"\r\n\r\n")
            method, path, *_ = [*request.split(b"\r\n", 1)[0].split(), b"", b""]
            if method != b"GET":
                status, body = "405 Method Not Allowed", "Only GET.\n"
            elif path.split(b"?", 1)[0] != b"/metrics":
                status, body = "404 Not Found", "There is /metrics only.\n"
            else:
                status, body = "200 OK", exposition(figures())
            content = body.encode()
            head = f"HTTP/1.1 {status}\r\nContent-Type: {CONTENT_TYPE}\r\nContent-Length: {len(content)}\r\n"
            writer.write(f"{head}Connection: close\r\n\r\n".encode() + content)
            await writer.drain()
    writer.close()
