"""`allot exec` from the socket down: who gets in, what comes through, and when it ends."""

import asyncio

import pytest
from asgiref.sync import sync_to_async

from controlplane import rights
from controlplane.sessions import consumers
from nodeagent import frames
from nodeagent.frames import EXIT, INPUT, OUTPUT, PROBLEM, WINDOW
from scheduler.core.model.lifecycle import AttemptState
from scheduler.models import Attempt, Event, Session
from scheduler.nodes.services.managing import node_create
from tenants.models import Membership, Token
from tests.patience import PATIENCE_SECONDS
from tests.scheduler.builders import make_member, make_user
from tests.sessions.conftest import Site, exit_code

STAYS = ["sh", "-c", "sleep 300"]


async def running(site: Site, tmp_path) -> str:
    """Start the job, and return its submitter's token."""
    await sync_to_async(site.set_up)(tmp_path, STAYS)
    await site.start()
    return await site.token(site.ada)


async def test_a_command_runs_in_the_job_and_who_did_it_is_written_down(site: Site, tmp_path):
    token = await running(site, tmp_path)
    line = await site.opened(token, {"command": ["sh", "-c", "cat; echo $ALLOT_JOB; echo oh >&2; exit 7"]})
    await line.send(INPUT + b"hello\n")
    await line.send(frames.END + INPUT)
    told = await line.all()
    assert told[OUTPUT] == f"hello\n{site.job.id}\n".encode()
    assert told[frames.ERRORS] == b"oh\n"
    assert exit_code(told) == 7

    @sync_to_async
    def record():
        event = Event.objects.get(kind="job.entered", job_id=site.job.id)
        return event.actor, event.message

    assert await record() == ("user ada", "Rank 0: sh -c cat; echo $ALLOT_JOB; echo oh >&2; exit 7")
    await site.until(lambda: Session.objects.filter(exit_code=7, ended_at__isnull=False).exists())

    terminal = {"type": "xterm-256color", "rows": 33, "columns": 101}
    line = await site.opened(
        token, {"command": ["sh", "-c", "stty size; read x; stty size"], "terminal": terminal}
    )
    await line.read_until(b"33 101")
    await line.send(frames.size(44, 132))
    await line.send(INPUT + b"\r")
    await line.read_until(b"44 132")
    assert exit_code(await line.all()) == 0
    assert "has no rank 5" in await site.refusal(token, {"rank": 5})
    assert "columns" in await site.refusal(token, {"terminal": {**terminal, "columns": 0}})
    assert "is not an object" in await site.refusal(token, [])

    # A flood stops at the window until somebody takes it in, and nothing is lost.
    line = await site.opened(token, {"command": ["head", "-c", "3000000", "/dev/zero"]})
    under_way: list[bytes] = []
    # As long as there is room for a whole frame, one comes.
    while sum(map(frames.cost, under_way)) <= WINDOW - frames.cost(OUTPUT + bytes(frames.DATA_BYTES)):
        async with asyncio.timeout(PATIENCE_SECONDS):
            under_way.append(await line.socket.recv())
    assert sum(map(frames.cost, under_way)) <= WINDOW
    await line.send(frames.taken(sum(map(frames.cost, under_way))))
    told = await line.all()
    got = len(told[OUTPUT]) + sum(len(frame) - 1 for frame in under_way)
    assert (got, exit_code(told)) == (3_000_000, 0)
    # Who does not wait for the window is cut off.
    line = await site.opened(token, {"command": ["sleep", "60"]})
    for _ in range(12):
        await line.send(INPUT + b"x" * frames.DATA_BYTES)
    assert b"under way" in (await line.all())[PROBLEM]


async def test_only_its_submitter_and_admins_get_in_and_no_longer_than_they_may(
    site: Site, tmp_path, monkeypatch
):
    token = await running(site, tmp_path)
    monkeypatch.setattr(rights, "RECHECK_SECONDS", 0.05)
    monkeypatch.setattr(consumers, "RECHECK_SECONDS", 0.05)
    monkeypatch.setattr(consumers, "JOIN_SECONDS", 0.5)

    @sync_to_async
    def people():
        return make_member(site.tenant, role="admin"), make_member(site.tenant), make_user(operator=True)

    admin, colleague, operator = await people()
    wanted = {"command": ["sleep", "60"]}
    await site.opened(await site.token(admin), wanted)
    assert "admins of tenant 'vision'" in await site.refusal(await site.token(colleague), wanted)
    assert "ALLOT_OPERATORS_ENTER_JOBS" in await site.refusal(await site.token(operator), wanted)
    assert "the scope submit" in await site.refusal(await site.token(site.ada, scopes=["read"]), wanted)
    stranger = await sync_to_async(make_user)()
    assert "There is no job" in await site.refusal(await site.token(stranger), wanted)
    assert await site.refusal("alt_000000000000_nonsense", wanted) == "closed"

    line = await site.opened(token, wanted)
    await Membership.objects.filter(user=site.ada).adelete()
    assert b"admins of tenant" in (await line.all())[PROBLEM]
    await Membership.objects.acreate(user=site.ada, tenant=site.tenant, role="member")
    line = await site.opened(token, wanted)
    await Token.objects.filter(user=site.ada).adelete()
    assert b"no longer signed in" in (await line.all())[PROBLEM]
    line = await site.opened(token := await site.token(site.ada), wanted)
    monkeypatch.setattr(consumers.settings.CONFIG, "session_idle_seconds", 0.01)
    assert b"Nothing was sent" in (await line.all())[PROBLEM]
    monkeypatch.setattr(consumers.settings.CONFIG, "sessions_per_user", 0)
    assert "sessions already" in await site.refusal(token, wanted)


async def test_a_session_ends_with_its_attempt_and_is_offered_to_its_own_node(site: Site, tmp_path):
    token = await running(site, tmp_path)
    line = await site.opened(token, {"terminal": {"type": "dumb"}})

    other = await sync_to_async(node_create)(name="other", rack="rack-1", actor="test")
    session = await Session.objects.aget(ended_at=None)
    await Session.objects.filter(id=session.id).aupdate(joined_at=None)
    from websockets.asyncio.client import connect
    from websockets.exceptions import InvalidStatus

    for intruder in (other.token, token):
        with pytest.raises(InvalidStatus):
            await connect(
                f"ws://127.0.0.1:{site.port}/ws/agent/sessions/{session.id}",
                additional_headers={"Authorization": f"Bearer {intruder}"},
            )

    await line.send(INPUT + b"stty -echo; echo up $((6*7))\r")
    await line.read_until(b"up 42")
    await sync_to_async(_stop)(site)
    told = await line.all()
    assert told.get(EXIT) or told.get(PROBLEM) or told
    await site.until(lambda: Attempt.objects.get(id=site.attempt.id).state == AttemptState.ENDED)
    assert "does not run now" in await site.refusal(token, {})


def _stop(site: Site) -> None:
    from scheduler.jobs.services.control import job_cancel

    job_cancel(job_id=site.job.id, actor="test")
