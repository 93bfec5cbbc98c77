"""Send the dashboards what changed, and wake node agents, once the transaction is committed.

Objects go out whole with their row version and the page keeps the newest, so a lost, late or doubled message
is harmless. Nothing here fails what was committed.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence, Sized
from typing import Any, TypeVar

from channels.layers import get_channel_layer

from tenants.after_commit import after_commit, once_after_commit

T = TypeVar("T", bound=Sized)

#: Each page is in it.
EVERYONE = "everyone"
OPERATORS = "operators"
#: The pages and programs that want to hear what GPUs do.
SAMPLES = "samples"
#: Objects per message: keeps one frame well below the limits of browsers and Redis.
_BATCH = 100

#: The groups that get it, and what they get.
Message = tuple[tuple[str, ...], dict[str, Any]]


def tenant_group(name: str) -> str:
    return f"tenant.{name}"


def node_group(node_id: int) -> str:
    return f"node.{node_id}"


def log_group(job_id: int) -> str:
    return f"log.{job_id}"


def wake_nodes(ids: Iterable[int]) -> None:
    """Let the agents fetch their desired state now and not with their next report."""
    on_commit(send, [((node_group(node_id),), {"type": "agent.wake"}) for node_id in sorted(set(ids))])


def on_commit(send: Callable[[T], None], items: T) -> None:
    if items:
        after_commit(send, items)


def to_pages(send: Callable[[T], None], items: T) -> None:
    """As `on_commit`, for objects that are read only for pages: without an open page nothing is read.

    A page that opens later asks for what it shows after it was greeted, and so after this commit.
    """
    if items:
        once_after_commit(_send_if_open, send, items)


def _send_if_open(send: Callable[[T], None], items: T) -> None:
    if get_channel_layer().is_heard(EVERYONE):
        send(items)


def send_to_everyone(objects: Sequence[Mapping[str, object]]) -> None:
    send([((EVERYONE,), {"type": "live.objects", "objects": batch}) for batch in batches(objects)])


def object_of(kind: str, data: Mapping[str, object]) -> dict[str, object]:
    return {"kind": kind, "id": data["id"], "version": data["version"], "data": data}


def batches(objects: Sequence[Any]) -> list[list[Any]]:
    return [list(objects[start : start + _BATCH]) for start in range(0, len(objects), _BATCH)]


def send(messages: Sequence[Message]) -> None:
    get_channel_layer().send_all(messages)
