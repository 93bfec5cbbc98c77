"""nodes, sharing, drain, cordon, resume: the machines, who shares their GPUs; out of service and back."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from allot.commands.options import OutputOption, QuietOption, connect
from allot.describe import closing_words, in_maintenance, part_words, storage_words
from allot.output import (
    Format,
    duration,
    gibibytes,
    local_time,
    parse_time,
    print_line,
    print_objects,
    print_table,
    say,
    since,
)
from allot.times import instant

if TYPE_CHECKING:
    from allot.schema import GpuSharer, Node

Name = Annotated[str, typer.Argument(metavar="NODE", help="The node's name.", show_default=False)]
Why = Annotated[
    str, typer.Option("--why", "-m", help="The reason, visible to all users.", show_default=False)
]

#: What keeps jobs without an image apart.
ISOLATION_WORDS = {
    "sandbox": "a sandbox",
    "landlock": "Landlock",
    "none": "nothing that keeps them apart",
    "unknown": "",
}


def nodes(
    name: Annotated[str | None, typer.Argument(help="Show this node and its GPUs.")] = None,
    output: OutputOption = Format.table,
    quiet: QuietOption = False,
) -> None:
    """List nodes, or show one."""
    with connect() as client:
        found = client.node(name) if name else client.nodes()
    if output is not Format.table:
        print_objects(found, output)
    elif not isinstance(found, list):
        _print_node(found)
    elif quiet:
        for node in found:
            print_line(node["name"])
    elif not found:
        say("No nodes yet. An operator adds one on the page, or by POST /api/v1/nodes.")
    else:
        rows = [
            [
                node["name"],
                _node_state(node),
                node["rack"],
                node["gpu_model"] or "-",
                len(node["gpus"]),
                _count(node, "held"),
                _free(node),
                f"{node['cpus']:g}",
                gibibytes(node["memory_bytes"]),
                _node_detail(node),
            ]
            for node in found
        ]
        columns = ["NAME", "STATE", "RACK", "MODEL", "GPUS", "HELD", "FREE", "CPUS", "MEMORY", "DETAIL"]
        print_table(columns, rows, right=("GPUS", "HELD", "FREE", "CPUS", "MEMORY"))


def sharing(output: OutputOption = Format.table) -> None:
    """List shared GPUs: each job's part, how it is enforced, and how much sharing slows the job down."""
    with connect() as client:
        found = list(client.shared_gpus())
    if output is not Format.table:
        print_objects(found, output)
    elif not found:
        say("No GPU is shared now.")
    else:
        rows = [
            [
                gpu["node"],
                gpu["index"],
                gpu["gpu_model"] or "-",
                f"{gpu['in_use']:g}",
                f"{job['id']} {job['name']}" if job["id"] else "of another tenant",
                f"{job['request']:g}",
                f"{job['limit']:g}",
                f"{job['memory_bytes'] / 2**30:.3g} GiB" if job["memory_bytes"] else "-",
                _memory_used(job),
                job["enforcement"].replace("_", " ") or "not told" if job["way"] == "part" else job["way"],
                _slowdown(job),
            ]
            for gpu in found
            for job in gpu["jobs"]
        ]
        columns = [
            "NODE",
            "GPU",
            "MODEL",
            "IN USE",
            "JOB",
            "PART",
            "LIMIT",
            "MEMORY",
            "USED",
            "HELD",
            "SLOWDOWN",
        ]
        print_table(columns, rows, right=("GPU", "IN USE", "PART", "LIMIT", "MEMORY", "USED"))


def _memory_used(job: GpuSharer) -> str:
    if job["memory_used_bytes"] is None:
        return "not measured" if job["id"] else "-"
    return f"{job['memory_used_bytes'] / 2**30:.3g} GiB"


def _slowdown(job: GpuSharer) -> str:
    if job["slowdown"] is None:
        return "not measured" if job["id"] else "-"
    return f"{job['slowdown']:.2f}×"


def _node_state(node: Node) -> str:
    if node["state"] == "ready" and in_maintenance(node):
        return "MAINTENANCE"
    if node["state"] == "ready" and node["drained"]:
        return "DRAINED"
    if node["state"] == "ready" and node["drain_deadline"] and not node["cordoned"]:
        return "CLOSING"
    if node["state"] == "ready" and node["draining"]:
        return "DRAINING"
    if node["state"] == "ready" and node["cordoned"]:
        return "CORDONED"
    if node["state"] == "ready" and node["loan"]:
        return node["loan"]["state"].upper()
    return node["state"].upper()


def _count(node: Node, state: str) -> int:
    return sum(gpu["state"] == state for gpu in node["gpus"])


def _free(node: Node) -> int:
    """GPUs that a job could get now."""
    loan = node["loan"]
    if (
        node["state"] != "ready"
        or node["cordoned"]
        or in_maintenance(node)
        or (loan and loan["state"] != "lent")
    ):
        return 0
    return sum(gpu["state"] == "free" and gpu["healthy"] for gpu in node["gpus"])


def _node_detail(node: Node) -> str:
    broken = [f"GPU {gpu['index']}: {gpu['problem']}" for gpu in node["gpus"] if not gpu["healthy"]]
    # What a check says of one GPU is among these; and what made the platform cordon it, in its reason.
    warned = [
        f"{check['name']}: {check['message']}"
        for check in node["health"]
        if check["verdict"] != "ok" and (check["gpu"] is None or check["verdict"] == "warning")
    ]
    withdrawn = node["withdrawn"]
    news = [warn for warn in warned if withdrawn is None or warn not in withdrawn["why"]]
    return "; ".join([*_facts(node), *broken, *news])


def _facts(node: Node) -> list[str]:
    """Return what closes the node, or will, and who may use it."""
    return [*_maintenance_lines(node), *_loan_lines(node), *_withdrawn_lines(node)]


def _loan_lines(node: Node) -> list[str]:
    """Return of which serving pool the node is, and when it goes back."""
    loan = node["loan"]
    if loan is None:
        return []
    lines = [f"of serving pool {loan['pool']}"]
    if loan["return_by"]:
        lines.append(f"goes back in {until(loan['return_by'])}")
    elif loan["until"]:
        lines.append(f"lent for {until(loan['until'])}")
    if loan["state"] != "serving" and loan["why"]:
        lines.append(loan["why"])
    return lines


def _maintenance_lines(node: Node) -> list[str]:
    """Return the window that closes the node, now or next."""
    window = node["maintenance"]
    if window is None:
        return []
    if in_maintenance(node):
        return [f"until {local_time(window['ends_at'])}: {window['reason']}"]
    return [closing_words(window)]


def _withdrawn_lines(node: Node) -> list[str]:
    """Return who took the node out of service and why, and what is to come."""
    withdrawn = node["withdrawn"]
    if withdrawn is None:
        return []
    who = withdrawn["by"].removeprefix("user ") or "an operator"
    lines = [f"by {who}: {withdrawn['why']}" if withdrawn["why"] else f"by {who}"]
    if node["drain_deadline"]:
        lines.append(f"emptied in {until(node['drain_deadline'])}")
    if withdrawn["returns_itself"]:
        lines.append("returns when its checks are ok")
    return lines


def _enforced(isolation: dict[str, bool]) -> list[str]:
    # How parts are held has a line of its own.
    return [name for name, is_on in isolation.items() if is_on and name not in ("gpu_parts", "gpu_tokens")]


def _print_node(node: Node) -> None:
    print_line(f"Node {node['name']}")
    for title, text in (
        ("State", "; ".join([_node_state(node), *_facts(node)])),
        ("Rack", node["rack"]),
        ("Address", node["address"]),
        ("CPUs", f"{node['cpus']:g}"),
        ("Memory", gibibytes(node["memory_bytes"])),
        ("Storage", storage_words(node)),
        ("Agent", node["agent_version"]),
        ("Jobs in", ISOLATION_WORDS[node["isolation_level"]]),
        ("Enforces", ", ".join(_enforced(node["isolation"])) or "nothing"),
        ("GPU parts", part_words(node["enforcement"])),
    ):
        print_line(f"  {title:<10} {text or '-'}")
    print_line("")
    rows = [
        [
            gpu["index"],
            gpu["state"].upper() if gpu["healthy"] else "UNHEALTHY",
            node["gpu_model"] or "-",
            gpu["socket"],
            gpu["switch"],
            gpu["problem"],
        ]
        for gpu in node["gpus"]
    ]
    print_table(["GPU", "STATE", "MODEL", "SOCKET", "SWITCH", "PROBLEM"], rows, right=("GPU",))
    if node["health"]:
        print_line("")
        checks = [
            [check["name"], check["verdict"].upper(), since(check["since"]), check["message"]]
            for check in node["health"]
        ]
        print_table(["CHECK", "VERDICT", "SINCE", "MESSAGE"], checks, right=("SINCE",))


def until(at: str) -> str:
    """Return how long it is until a time of the API."""
    return duration((parse_time(at) - datetime.now().astimezone()).total_seconds())


def drain(
    name: Name,
    deadline: Annotated[
        str | None,
        typer.Option(
            "--deadline",
            metavar="WHEN",
            help="When its jobs are moved away: 2h (from now), or 2026-12-01T18:00. Default: now.",
        ),
    ] = None,
    why: Why = "",
) -> None:
    """Drain a node: move its jobs away, each with its grace period. For operators.

    Until the deadline its jobs go on, and only jobs that will end before it start there.
    """
    at = None if deadline is None else instant(deadline, "--deadline")
    with connect() as client:
        node = client.drain_node(name, until=at, why=why)
    held = sum(gpu["state"] == "held" for gpu in node["gpus"])
    if node["drain_deadline"]:
        state = f"drains until {local_time(node['drain_deadline'])}"
    else:
        state = "is draining" if held else "is drained"
    say(f"Node {name} {state}; {held} of its {len(node['gpus'])} GPUs are in use.")


def cordon(name: Name, why: Why = "") -> None:
    """Cordon a node: no new job starts there; its jobs go on. For operators."""
    with connect() as client:
        client.cordon_node(name, why=why)
    say(f"Node {name} accepts no new jobs.")


def resume(name: Name, why: Why = "") -> None:
    """Return a node to service, no matter who cordoned or drains it. For operators."""
    with connect() as client:
        node = client.resume_node(name, why=why)
    failed = [check["name"] for check in node["health"] if check["verdict"] == "failed"]
    doubt = f", though {', '.join(failed)} still fails" if failed else ""
    say(f"Node {name} accepts jobs again{doubt}.")


def register(app: typer.Typer) -> None:
    for command in (nodes, sharing, drain, cordon, resume):
        app.command()(command)
