"""Editions: what is edited has an ETag, and a change that was made from an old edition is refused."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.db import connection
from django.http import HttpResponse
from django.urls import URLPattern, URLResolver, get_resolver
from django.utils import timezone

from scheduler.models import ViewComputing
from tenants.api.editions import Edited
from tests.api.caller import Caller, caller, is_error
from tests.scheduler.builders import make_member, make_tenant, make_user

QUOTA = "/tenants/red/quota"


def made_from(etag: str) -> dict[str, dict[str, str]]:
    return {"headers": {"If-Match": etag}}


@pytest.fixture
def operator() -> Caller:
    make_tenant("red", quota={"*": 4})
    return caller(make_user("olga", operator=True))


def views(resolver: URLResolver, path: str = "") -> Iterator[tuple[str, Any]]:
    for each in resolver.url_patterns:
        if isinstance(each, URLResolver):
            yield from views(each, path + str(each.pattern))
        elif isinstance(each, URLPattern) and hasattr(each.callback, "cls"):
            yield path + str(each.pattern), each.callback.cls


def test_what_is_read_and_changed_at_one_address_has_editions() -> None:
    both = {
        path: view
        for path, view in views(get_resolver())
        if hasattr(view, "get") and (hasattr(view, "put") or hasattr(view, "patch"))
    }
    assert len(both) > 10
    # An archive has its digest for a name: it never changes.
    archive = "api/v1/tenants/<str:name>/archives/<str:digest>"
    assert [path for path, view in both.items() if not issubclass(view, Edited)] == [archive]


@pytest.mark.django_db
class TestOneThing:
    def test_a_change_from_the_edition_that_is_in_force_is_made(self, operator: Caller) -> None:
        read = operator.get(QUOTA)
        changed = operator.put(QUOTA, {"limits": {"*": 8}}, **made_from(read["ETag"]))
        assert changed.status_code == 200
        # Its own answer names the new edition, from which the next change can be made.
        assert changed["ETag"] != read["ETag"]
        assert operator.get(QUOTA)["ETag"] == changed["ETag"]
        again = operator.put(QUOTA, {"limits": {"*": 9}}, **made_from(f'"other", W/{changed["ETag"]}'))
        assert again.json()["limits"] == {"*": 9}

    def test_a_change_from_an_older_one_is_refused_and_changes_nothing(self, operator: Caller) -> None:
        read = operator.get(QUOTA)
        operator.put(QUOTA, {"limits": {"*": 8}})
        refused = operator.put(QUOTA, {"limits": {"*": 5}}, **made_from(read["ETag"]))
        assert is_error(refused, 412, "outdated")
        assert operator.get(QUOTA).json()["limits"] == {"*": 8}
        assert operator.put(QUOTA, {"limits": {"*": 5}}, **made_from("*")).status_code == 200

    def test_a_deletion_too(self, operator: Caller) -> None:
        read = operator.get("/tenants/red")
        operator.patch("/tenants/red", {"title": "Red team"})
        assert is_error(operator.delete("/tenants/red", **made_from(read["ETag"])), 412, "outdated")
        now = operator.get("/tenants/red")["ETag"]
        assert operator.delete("/tenants/red", **made_from(now)).status_code == 204
        assert is_error(operator.delete("/tenants/red", **made_from(now)), 404, "not_found")

    def test_settings_have_the_edition_of_what_people_change_in_them(self, operator: Caller) -> None:
        before = operator.get("/cluster/settings")
        ViewComputing.objects.create(view="spare", overruns=1, since=timezone.now(), message="It took 9 s.")
        after = operator.get("/cluster/settings")
        assert before.json()["overrun"] != after.json()["overrun"]
        assert before["ETag"] == after["ETag"]
        changed = operator.patch("/cluster/settings", {"backoff_seconds": 77}, **made_from(after["ETag"]))
        assert changed.status_code == 200
        assert changed["ETag"] != after["ETag"]

    def test_what_is_known_already_is_not_sent_again(self, operator: Caller) -> None:
        etag = operator.get(QUOTA)["ETag"]
        same = operator.get(QUOTA, headers={"If-None-Match": etag})
        assert (same.status_code, same.content, same["ETag"]) == (304, b"", etag)
        operator.put(QUOTA, {"limits": {}})
        assert operator.get(QUOTA, headers={"If-None-Match": etag}).status_code == 200

    def test_who_may_not_change_it_is_refused_as_without_an_edition(self, operator: Caller) -> None:
        member = caller(make_member(make_tenant("blue"), "mia"))
        etag = operator.get(QUOTA)["ETag"]
        assert is_error(member.put(QUOTA, {"limits": {}}, **made_from(etag)), 404, "not_found")

    def test_what_a_thing_does_by_itself_makes_no_other_edition(self, operator: Caller) -> None:
        make_member(make_tenant("green"), "gus")
        ann = "/users/gus"
        before = operator.get(ann)
        caller(make_user("someone"))
        with connection.cursor() as cursor:
            cursor.execute("UPDATE tenants_user SET last_login = now() WHERE username = 'gus'")
        after = operator.get(ann)
        assert before.json()["last_login"] != after.json()["last_login"]
        assert before["ETag"] == after["ETag"]


@pytest.mark.django_db(transaction=True)
def test_one_of_two_at_the_same_time_is_refused(operator: Caller) -> None:
    etag = operator.get(QUOTA)["ETag"]

    def change(gpus: int) -> HttpResponse:
        try:
            return operator.put(QUOTA, {"limits": {"*": gpus}}, **made_from(etag))
        finally:
            connection.close()

    for turn in range(5):
        with ThreadPoolExecutor(4) as pool:
            answers = list(pool.map(change, range(10 + 4 * turn, 14 + 4 * turn)))
        assert sorted(answer.status_code for answer in answers) == [200, 412, 412, 412]
        [won] = [answer for answer in answers if answer.status_code == 200]
        assert operator.get(QUOTA).json() == won.json()
        etag = won["ETag"]
