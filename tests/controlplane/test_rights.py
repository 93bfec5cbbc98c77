"""When it is noticed that a right has ended: said by who takes it, found by looking, or not to be found."""

import asyncio
import threading
from datetime import timedelta

import pytest
import redis
from asgiref.sync import sync_to_async
from django.conf import settings
from django.contrib.sessions.backends.db import SessionStore
from django.db import OperationalError, connection
from django.test import Client
from django.utils import timezone

from controlplane import rights
from tenants.models import Membership, Role, Token, User
from tenants.rights import SignIn, tell_changed
from tenants.selectors import viewer_of
from tenants.services import member_remove, member_set, token_revoke, user_change
from tests.api.caller import make_token
from tests.patience import PATIENCE_SECONDS, until_async
from tests.scheduler.builders import make_member, make_tenant, make_user

pytestmark = pytest.mark.django_db(transaction=True)

PROMISED_SECONDS = 10.0
NEVER_SECONDS = 600.0


@sync_to_async
def somebody() -> tuple[User, Token]:
    user = make_member(make_tenant("vision"), "ann")
    make_token(user)
    return user, Token.objects.get(user=user)


async def held() -> tuple[User, Token, rights.Right]:
    user, token = await somebody()
    right = await rights.hold(SignIn(user.id, token.id, ""))
    assert right is not None
    assert right.viewer is not None
    return user, token, right


def test_what_is_promised_is_kept_without_a_word_from_anybody():
    assert rights.RECHECK_SECONDS + rights.PAUSE_SECONDS < rights.LONGEST_UNSEEN_SECONDS < PROMISED_SECONDS


async def test_who_takes_a_right_away_says_so_and_nobody_waits(monkeypatch):
    """Said by Redis, so that all processes hear it."""
    monkeypatch.setattr(rights, "RECHECK_SECONDS", NEVER_SECONDS)
    monkeypatch.setattr(rights, "LONGEST_UNSEEN_SECONDS", NEVER_SECONDS)
    user, token, right = await held()
    operator = await sync_to_async(lambda: viewer_of(make_user(operator=True)))()
    tenant = await sync_to_async(lambda: user.memberships.get().tenant)()
    # The watch has begun to listen.
    await until_async(sync_to_async(listeners), "the watch to listen")

    def change(service, **arguments):
        return sync_to_async(service)(by=operator, **arguments)

    async with asyncio.timeout(PATIENCE_SECONDS):
        await change(member_set, tenant=tenant, username="ann", role=Role.ADMIN)
        assert (await right.changed()).roles == {tenant.id: "admin"}
        await change(member_remove, tenant=tenant, username="ann")
        assert not (await right.changed()).roles
        await change(user_change, username="ann", is_operator=True)
        assert (await right.changed()).is_operator
        # What is no right is no news.
        await change(user_change, username="ann", email="ann@example.org")
        await change(token_revoke, key=token.key)
        assert await right.changed() is None
    assert await right.changed() is None


@pytest.mark.parametrize("when", ["watched", "about to be watched"])
async def test_a_role_that_was_changed_and_changed_back_is_news(when, monkeypatch):
    """A page that asked in between shows what its viewer might do then, until it hears of a change."""
    monkeypatch.setattr(rights, "RECHECK_SECONDS", NEVER_SECONDS)
    user, token = await somebody()
    membership = Membership.objects.filter(user=user)
    role = (await membership.aget()).role
    if when == "about to be watched":
        look = rights.facts_of

        def look_before_the_change(sign_ins):
            facts = look(sign_ins)
            membership.update(role=Role.ADMIN)
            return facts

        with monkeypatch.context() as patch:
            patch.setattr(rights, "facts_of", look_before_the_change)
            right = await rights.hold(SignIn(user.id, token.id, ""))
    else:
        right = await rights.hold(SignIn(user.id, token.id, ""))
        await membership.aupdate(role=Role.ADMIN)
    assert right is not None
    await until_async(sync_to_async(listeners), "the watch to listen")
    await membership.aupdate(role=role)
    await sync_to_async(tell_changed)()
    async with asyncio.timeout(PATIENCE_SECONDS):
        assert list((await right.changed()).roles.values()) == [role]


def listeners() -> int:
    with redis.Redis.from_url(settings.REDIS_URL) as client:
        return dict(client.pubsub_numsub("allot__group__rights"))[b"allot__group__rights"]


@pytest.mark.parametrize(
    "take",
    [
        lambda user: Token.objects.filter(user=user).delete(),
        lambda user: Token.objects.filter(user=user).update(expires_at=timezone.now()),
        lambda user: User.objects.filter(id=user.id).update(is_active=False),
        lambda user: user.delete(),
    ],
    ids=["revoked", "expired", "disabled", "deleted"],
)
async def test_a_right_that_nobody_spoke_of_is_found_to_have_ended(take, monkeypatch):
    monkeypatch.setattr(rights, "RECHECK_SECONDS", 0.05)
    user, _token, right = await held()
    await sync_to_async(take)(user)
    async with asyncio.timeout(PATIENCE_SECONDS):
        assert await right.changed() is None


@pytest.mark.parametrize("end", ["signed out", "expired", "another password"])
async def test_a_session_ends_for_what_it_opened(end, monkeypatch):
    monkeypatch.setattr(rights, "RECHECK_SECONDS", 0.05)
    user, _token = await somebody()

    @sync_to_async
    def signed_in() -> str:
        client = Client()
        client.force_login(user)
        return client.session.session_key

    @sync_to_async
    def take() -> None:
        if end == "signed out":
            SessionStore(key).flush()
        elif end == "expired":
            SessionStore(key).model.objects.update(expire_date=timezone.now() - timedelta(seconds=1))
        else:
            user.set_password("another-one-9")
            user.save()

    key = await signed_in()
    right = await rights.hold(SignIn(user.id, None, key))
    assert right is not None
    await take()
    async with asyncio.timeout(PATIENCE_SECONDS):
        assert await right.changed() is None


async def test_an_answer_under_way_ends_with_what_it_was_asked_as(monkeypatch):
    """The audit log of a tenant is its admins' alone; what jobs wrote, any member's."""
    monkeypatch.setattr(rights, "RECHECK_SECONDS", 0.05)
    user, token = await somebody()
    membership = Membership.objects.filter(user=user)
    tenant_id = (await membership.aget()).tenant_id
    await membership.aupdate(role="admin")
    right = await rights.hold(SignIn(user.id, token.id, ""))
    assert right is not None
    assert right.viewer is not None

    def reading(may_read=None) -> asyncio.Task[None]:
        return asyncio.create_task(rights.lost(rights.Reader(right.viewer, right.sign_in, may_read)))

    audit, log = reading(), reading(lambda viewer: viewer.may(tenant_id, Role.VIEWER))
    async with asyncio.timeout(PATIENCE_SECONDS):
        await membership.aupdate(role="viewer")
        await audit
        assert not log.done()
        await membership.adelete()
        await log


async def test_what_cannot_be_looked_up_is_not_served_for_longer_than_promised(monkeypatch):
    monkeypatch.setattr(rights, "RECHECK_SECONDS", 0.05)
    monkeypatch.setattr(rights, "LONGEST_UNSEEN_SECONDS", 1.0)
    _user, _token, right = await held()
    failures = 0

    def fails(sign_ins):
        nonlocal failures
        failures += 1
        raise OperationalError("the database is away")

    with monkeypatch.context() as away:
        away.setattr(rights, "facts_of", fails)
        await until_async(lambda: failures >= 2, "two looks that fail")
    # It was away for less: nothing ended.
    assert right.viewer is not None
    monkeypatch.setattr(rights, "facts_of", fails)
    async with asyncio.timeout(PATIENCE_SECONDS):
        assert await right.changed() is None
    assert failures > 3


async def test_a_database_that_does_not_answer_counts_as_away(monkeypatch):
    monkeypatch.setattr(rights, "RECHECK_SECONDS", 0.05)
    monkeypatch.setattr(rights, "LONGEST_UNSEEN_SECONDS", 0.5)
    _user, _token, right = await held()
    answered = threading.Event()

    def hangs(sign_ins):
        assert answered.wait(PATIENCE_SECONDS)
        return [b""] * len(sign_ins)

    monkeypatch.setattr(rights, "facts_of", hangs)
    try:
        # There is no answer yet, and none is waited for.
        async with asyncio.timeout(PATIENCE_SECONDS / 2):
            assert await right.changed() is None
    finally:
        answered.set()


async def test_many_are_looked_after_by_one_statement(monkeypatch, django_assert_num_queries):
    user, token = await somebody()
    sign_ins = [SignIn(user.id, token.id, "")] * 500

    @sync_to_async
    def looked():
        known = [facts for facts, _ in rights._look(sign_ins[:1], [None])] * len(sign_ins)
        with django_assert_num_queries(1):
            return rights._look(sign_ins, known)

    assert all(facts is not None and viewer is None for facts, viewer in await looked())
    assert await Membership.objects.filter(user=user).aexists()


async def test_nothing_else_that_asks_the_database_delays_the_end_of_an_answer(monkeypatch):
    """Sockets that begin, sessions that end: all of them use the one thread that Django gives them."""
    monkeypatch.setattr(rights, "RECHECK_SECONDS", 0.05)
    _user, token, right = await held()
    is_over, is_taken = threading.Event(), threading.Event()

    def hog() -> None:
        is_taken.set()
        assert is_over.wait(PATIENCE_SECONDS)

    def take() -> None:
        token.delete()
        connection.close()

    hogging = asyncio.create_task(sync_to_async(hog)())
    try:
        await until_async(is_taken.is_set, "the thread is taken")
        reading = asyncio.create_task(rights.lost(rights.Reader(right.viewer, right.sign_in, None)))
        async with asyncio.timeout(PATIENCE_SECONDS / 2):
            await asyncio.to_thread(take)
            await reading
    finally:
        is_over.set()
        await hogging
