"""Who hears what: real Redis, the real ASGI application, and sockets as a browser or an agent opens them."""

import json

import pytest
from asgiref.sync import sync_to_async
from channels_redis.serializers import MsgPackSerializer
from django.conf import settings
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from controlplane.asgi import application
from controlplane.live import NOT_SIGNED_IN, TOO_LARGE, TOO_MANY, Pace
from nodeagent.messages import GpuSample
from scheduler.agents.services.reports import publish_samples
from scheduler.core.model.plan import LedgerLine as Line
from scheduler.jobs.representations import publish_jobs
from scheduler.nodes.representations import publish_nodes
from scheduler.nodes.services.managing import node_create
from scheduler.telemetry.logs.services.storing import publish_log
from scheduler.virtual_clusters.ledger.services import publish_lines, row_of
from scheduler.virtual_clusters.market.representations import publish_accounts, publish_loans, publish_offers
from scheduler.virtual_clusters.representations import publish_virtual_clusters
from scheduler.wiring import stream
from scheduler.wiring.clock import database_now
from tenants.models import Token
from tenants.tokens import USER_PREFIX, new_secret
from tests.live.sockets import Socket
from tests.patience import PATIENCE_SECONDS
from tests.scheduler.builders import (
    make_account,
    make_job,
    make_loan,
    make_member,
    make_node,
    make_tenant,
    make_user,
    make_vc,
)

pytestmark = pytest.mark.django_db(transaction=True)


def token_of(user) -> str:
    secret = new_secret(USER_PREFIX)
    Token.objects.create(user=user, name="t", key=secret.key, digest=secret.digest)
    return secret.text


async def connect(path: str, token: str = "", query: str = "") -> Socket:
    headers = [(b"host", b"localhost")]
    if token:
        headers.append((b"authorization", f"Bearer {token}".encode()))
    return Socket(application, path, headers, query)


async def watch(user, query: str = "") -> Socket:
    """A page of this user, past its greeting."""
    socket = await connect("/ws/live", await sync_to_async(token_of)(user), query)
    assert await socket.connect()
    assert (await socket.receive())["type"] == "hello"
    return socket


async def test_a_user_has_no_more_streams_than_the_settings_say(monkeypatch):
    monkeypatch.setattr(settings.CONFIG, "sockets_per_user", 2)
    user = await sync_to_async(make_user)()
    first, _second = await watch(user), await watch(user)
    third = await connect("/ws/live", await sync_to_async(token_of)(user))
    assert await third.connect()
    assert await third.closed_with() == TOO_MANY
    # Others have their own, and one that is closed makes room.
    await watch(await sync_to_async(make_user)())
    await first.peer.send_input({"type": "websocket.disconnect", "code": 1000})
    await first.peer.wait(timeout=PATIENCE_SECONDS)
    await watch(user)


def test_messages_beyond_a_pace_wait_each_for_its_part_of_a_second():
    pace, rate = Pace(0.0), settings.CONFIG.socket_messages_per_second
    waits = [pace.wait_seconds(1.0) for _ in range(60)]
    assert waits[:40] == [0.0] * 40
    assert waits[40:] == pytest.approx([number / rate for number in range(1, 21)])
    assert pace.wait_seconds(100.0) == 0.0


async def test_each_message_on_a_socket_waits_for_its_turn(monkeypatch):
    counted = []
    monkeypatch.setattr(Pace, "wait_seconds", lambda pace, now: counted.append(now) or 0.01)
    page = await watch(await sync_to_async(make_user)())
    for _ in range(3):
        await page.say({"type": "ping"})
        assert (await page.receive())["type"] == "pong"
    assert len(counted) == 3
    assert counted[2] - counted[0] >= 0.02


@sync_to_async
def publish(*messages) -> None:
    with transaction.atomic():
        for send, *arguments in messages:
            send(*arguments)


@sync_to_async
def world():
    """Two tenants with a job each, and a page-owner for each."""
    vision, speech = make_tenant("vision"), make_tenant("speech")
    ours = make_job(tenant=vision, virtual_cluster=make_vc(members=[vision]))
    theirs = make_job(tenant=speech, virtual_cluster=make_vc(members=[speech]))
    return ours, theirs, make_member(vision, role="viewer"), make_user(operator=True)


async def heard(socket) -> list[tuple[str, int]]:
    """The objects of the next message."""
    message = await socket.receive()
    assert message["type"] == "objects"
    return [(each["kind"], each["id"]) for each in message["objects"]]


#: What everybody hears and nothing else looks like.
MARKER = {"kind": "round", "id": 0, "version": 0, "data": {}}


async def hears_nothing(page) -> bool:
    """Whether the page hears next what is sent now: whatever was sent before would come first."""
    await publish((stream.send_to_everyone, [MARKER]))
    return await page.receive() == {"type": "objects", "objects": [MARKER]}


async def test_members_hear_of_their_tenants_jobs_and_operators_of_all():
    ours, theirs, member, operator = await world()
    page, console = await watch(member), await watch(operator)
    await publish((publish_jobs, [theirs.id]), (publish_jobs, [ours.id]))
    assert await heard(page) == [("job", ours.id)]
    assert await heard(console) == [("job", theirs.id)]
    assert await heard(console) == [("job", ours.id)]
    assert await hears_nothing(page)


async def test_objects_are_whole_and_carry_their_version():
    ours, _, member, _ = await world()
    page = await watch(member)
    await publish((publish_jobs, [ours.id]))
    (each,) = (await page.receive())["objects"]
    assert each["version"] == ours.version
    assert each["data"]["name"] == ours.name
    assert each["data"]["spec"] == ours.spec


async def test_what_only_pages_hear_is_not_read_where_none_is_open():
    ours, _, member, _ = await world()

    @sync_to_async
    def statements() -> list[str]:
        with CaptureQueriesContext(connection) as captured:
            publish_jobs([ours.id])
        return [each["sql"] for each in captured]

    assert await statements() == []
    page = await watch(member)
    assert any("scheduler_job" in sql for sql in await statements())
    assert await heard(page) == [("job", ours.id)]


async def test_nothing_is_told_of_what_was_not_committed():
    ours, _, member, _ = await world()
    page = await watch(member)

    @sync_to_async
    def rolled_back():
        with transaction.atomic():
            publish_jobs([ours.id])
            transaction.set_rollback(True)

    await rolled_back()
    assert await hears_nothing(page)


async def test_of_the_members_of_a_virtual_cluster_one_hears_of_ones_own_tenants():
    ours, _, member, operator = await world()
    page, console = await watch(member), await watch(operator)

    @sync_to_async
    def shared() -> int:
        return make_vc(members=[ours.tenant, make_tenant("rival")]).id

    await publish((publish_virtual_clusters, [await shared()]))
    [(seen,)] = [(await page.receive())["objects"]]
    assert ([one["tenant"] for one in seen["data"]["members"]], seen["data"]["other_members"]) == (
        ["vision"],
        1,
    )
    [(seen,)] = [(await console.receive())["objects"]]
    assert [one["tenant"] for one in seen["data"]["members"]] == ["rival", "vision"]


async def test_everybody_hears_of_nodes_and_nodes_name_no_tenant():
    ours, _, member, _ = await world()
    node = await sync_to_async(make_node)("v100-a1", gpus=1)
    page = await watch(member)
    sample = GpuSample(index=0, utilisation_percent=90.0, memory_used_bytes=2**30)
    await publish((publish_nodes, [node.id]), (publish_samples, node.name, [sample]))
    message = await page.receive()
    assert [each["kind"] for each in message["objects"]] == ["node"]
    assert ours.tenant.name not in str(message["objects"][0]["data"]["gpus"])
    (told,) = (await page.receive())["gpus"]
    assert told == {"index": 0, "utilisation_percent": 90.0, "memory_used_bytes": 2**30}


async def test_a_page_that_wants_no_samples_hears_all_else():
    user = await sync_to_async(make_user)()
    node = await sync_to_async(make_node)("v100-a1", gpus=1)
    page, program = await watch(user, "samples=no"), await watch(user)
    sample = GpuSample(index=0, utilisation_percent=90.0, memory_used_bytes=2**30)
    await publish((publish_samples, node.name, [sample]), (publish_nodes, [node.id]))
    assert (await program.receive())["type"] == "samples"
    for socket in (page, program):
        assert await heard(socket) == [("node", node.id)]


async def test_a_message_is_decoded_and_written_once_for_all_pages(monkeypatch):
    _, _, member, operator = await world()
    pages = [await watch(user) for user in (member, operator, member)]
    decoded, written = [], []
    decode, write = MsgPackSerializer.from_bytes, json.dumps
    monkeypatch.setattr(MsgPackSerializer, "from_bytes", lambda _, text: decoded.append(text) or decode(text))
    monkeypatch.setattr(
        json, "dumps", lambda value, **options: written.append(value) or write(value, **options)
    )
    await publish((stream.send_to_everyone, [MARKER]))
    for page in pages:
        assert await page.receive() == {"type": "objects", "objects": [MARKER]}
    assert (len(decoded), len(written)) == (1, 1)


async def test_many_messages_come_whole_and_in_their_order():
    _, _, member, operator = await world()
    pages = [await watch(user) for user in (member, operator)]
    sent = [[{**MARKER, "id": number}] for number in range(40)]
    await publish(*[(stream.send_to_everyone, objects) for objects in sent])
    for page in pages:
        assert [(await page.receive())["objects"] for _ in sent] == sent


async def test_everybody_hears_of_offers_and_loans_and_members_alone_of_their_account():
    ours, theirs, member, operator = await world()

    @sync_to_async
    def deal():
        lender, borrower = ours.virtual_cluster, theirs.virtual_cluster
        loan = make_loan(lender, borrower, {"V100": 1})
        for virtual_cluster in (lender, borrower):
            make_account(virtual_cluster, 5)
        return loan

    loan = await deal()
    page, console = await watch(member), await watch(operator)
    mine, other = ours.virtual_cluster_id, theirs.virtual_cluster_id
    await publish(
        (publish_offers, [loan.offer_id]),
        (publish_accounts, [mine, other]),
        (publish_loans, [loan.id]),
    )
    told = [("offer", loan.offer_id), ("account", mine), ("account", other), ("loan", loan.id)]
    assert [await heard(console) for _ in told] == [[each] for each in told]
    told.remove(("account", other))
    assert [await heard(page) for _ in told] == [[each] for each in told]


async def test_a_stranger_is_turned_away_with_a_reason_the_page_understands():
    socket = await connect("/ws/live", "alt_000000000000_nonsense")
    assert await socket.connect()
    assert await socket.closed_with() == NOT_SIGNED_IN


async def test_a_foreign_page_cannot_use_the_browsers_cookie():
    headers = [(b"host", b"localhost"), (b"origin", b"https://elsewhere.example")]
    socket = Socket(application, "/ws/live", headers)
    assert not await socket.connect()


class Chunk:
    sequence, at, text = 0, 1.0, "epoch 1\n"


async def test_a_log_is_heard_by_those_who_may_watch_it():
    ours, theirs, member, _ = await world()
    page = await watch(member)
    for job in (ours, theirs):
        await page.say({"type": "watch_log", "job": job.id})
    await page.say({"type": "ping"})
    assert await page.receive() == {"type": "pong"}
    await publish((publish_log, theirs.id, 1, 0, [Chunk]), (publish_log, ours.id, 2, 0, [Chunk]))
    message = await page.receive()
    assert (message["type"], message["job"], message["attempt"]) == ("log", ours.id, 2)
    assert message["chunks"] == [{"sequence": 0, "at": 1.0, "text": "epoch 1\n"}]

    await page.say({"type": "unwatch_log", "job": ours.id})
    await page.say({"type": "ping"})
    assert await page.receive() == {"type": "pong"}
    await publish((publish_log, ours.id, 2, 0, [Chunk]))
    assert await hears_nothing(page)


@pytest.mark.parametrize("text", ["", "null", "[1]", "{", '{"type": 7}', '{"type": "watch_log", "job": "x"}'])
async def test_nonsense_from_a_page_is_ignored(text):
    _, _, member, _ = await world()
    page = await watch(member)
    await page.say_text(text)
    await page.say({"type": "ping"})
    assert await page.receive() == {"type": "pong"}


async def test_a_flood_from_a_page_ends_its_stream():
    _, _, member, _ = await world()
    page = await watch(member)
    await page.say_text("x" * 5_000)
    assert await page.closed_with() == TOO_LARGE


async def test_an_agent_hears_its_own_wake_and_nothing_else():
    @sync_to_async
    def two_nodes():
        return [node_create(name=name, rack="rack-1", actor="user ada") for name in ("left", "right")]

    left, right = await two_nodes()
    socket = await connect("/ws/agent", left.token)
    assert await socket.connect()
    await publish((stream.wake_nodes, [right.node.id]), (publish_nodes, [left.node.id]))
    # A wake says nothing of whom it is for, so the agent's own marker is of another kind.
    marker = {"type": "agent.session", "session": {"id": "marker"}}
    await publish((stream.send, [((stream.node_group(left.node.id),), marker)]))
    assert await socket.receive() == {"type": "session", "session": {"id": "marker"}}
    await publish((stream.wake_nodes, [left.node.id]))
    assert await socket.receive() == {"type": "wake"}


async def test_a_users_token_opens_no_agents_socket_nor_a_nodes_token_a_page():
    node = await sync_to_async(node_create)(name="left", rack="rack-1", actor="user ada")
    user = await sync_to_async(lambda: token_of(make_user(operator=True)))()
    socket = await connect("/ws/agent", user)
    assert not await socket.connect()
    page = await connect("/ws/live", node.token)
    await page.connect()
    assert await page.closed_with() == NOT_SIGNED_IN


async def test_lines_of_the_ledger_go_to_whom_they_concern_and_hide_other_tenants():
    ours, theirs, member, operator = await world()
    page, console = await watch(member), await watch(operator)
    lines = [
        Line(kind="trade", party="vision", counterparty="speech", jobs=(ours.id, theirs.id)),
        Line(kind="bid", party="speech", message="speech bid"),
    ]

    @sync_to_async
    def written():
        with transaction.atomic():
            at, view = database_now(), ours.virtual_cluster.name
            owners = {ours.id: "vision", theirs.id: "speech"}
            rows = [row_of(line, view=view, at=at, id=number) for number, line in enumerate(lines)]
            publish_lines(rows, owners)

    await written()
    told = await page.receive()
    assert set(told) == {"type", "lines"}
    (line,) = told["lines"]
    assert (line["party"], line["counterparty"], line["jobs"]) == ("vision", "another tenant", [ours.id])
    assert [line["counterparty"] for line in (await console.receive())["lines"]] == ["speech", ""]
    assert await hears_nothing(page)
