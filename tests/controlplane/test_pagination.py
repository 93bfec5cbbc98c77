"""Pages by cursor."""

import pytest

from tests.api.caller import caller, is_error
from tests.scheduler.builders import make_tenant, make_user

pytestmark = pytest.mark.django_db


@pytest.fixture
def operator():
    return caller(make_user(operator=True))


def names(page) -> list[str]:
    return [one["name"] for one in page["results"]]


def test_pages_forth_and_back(operator):
    for number in range(5):
        make_tenant(f"t{number}")
    first = operator.get("/tenants?page_size=2").json()
    assert (names(first), first["previous"]) == (["t4", "t3"], None)
    second = operator.get(first["next"]).json()
    assert names(second) == ["t2", "t1"]
    third = operator.get(second["next"]).json()
    assert (names(third), third["next"]) == (["t0"], None)
    back = operator.get(third["previous"]).json()
    assert names(back) == ["t2", "t1"]
    start = operator.get(back["previous"]).json()
    assert (names(start), start["previous"]) == (["t4", "t3"], None)
    assert names(operator.get(start["next"]).json()) == ["t2", "t1"]


def test_what_is_added_meanwhile_moves_nothing(operator):
    for number in range(4):
        make_tenant(f"t{number}")
    first = operator.get("/tenants?page_size=2").json()
    make_tenant("newer")
    assert names(operator.get(first["next"]).json()) == ["t1", "t0"]


def test_an_empty_list_and_a_full_page(operator):
    assert operator.get("/tenants").json() == {"results": [], "next": None, "previous": None}
    make_tenant("only")
    page = operator.get("/tenants?page_size=1").json()
    assert (names(page), page["next"], page["previous"]) == (["only"], None, None)


@pytest.mark.parametrize("size", ["0", "-1", "201", "x", "", "1e2", "0000000000100000", "١"])
def test_a_page_size_out_of_range_is_refused(operator, size):
    error = is_error(operator.get(f"/tenants?page_size={size}"), 400, "invalid")
    assert error["fields"][0]["expected"] == "a whole number from 1 to 200"


@pytest.mark.parametrize("cursor", ["x", "after", "after.x", "beside.5", "after.1.5", "after.%27%3B--"])
def test_a_made_up_cursor_is_refused(operator, cursor):
    assert (
        is_error(operator.get(f"/tenants?cursor={cursor}"), 400, "invalid")["fields"][0]["field"] == "cursor"
    )


def test_a_cursor_beyond_all_rows_is_an_empty_page(operator):
    make_tenant("only")
    assert operator.get(f"/tenants?cursor=after.-{'9' * 40}").json()["results"] == []


def test_links_keep_the_other_parameters(operator):
    for number in range(3):
        make_tenant(f"t{number}")
    assert "page_size=1" in operator.get("/tenants?page_size=1").json()["next"]


def address_of_the_next_page(operator, **headers: str) -> str:
    make_tenant("a")
    make_tenant("b")
    return operator.get("/tenants?page_size=1", headers=headers).json()["next"]


def test_addresses_of_pages_are_whole_and_at_the_host_that_was_asked(operator, settings):
    settings.ALLOWED_HOSTS = ["gpus.example.org"]
    address = address_of_the_next_page(operator, Host="gpus.example.org:8443")
    assert address.startswith("http://gpus.example.org:8443/api/v1/tenants?cursor=after.")


def test_behind_a_proxy_that_ends_tls_addresses_of_pages_are_https(operator, settings):
    settings.SESSION_COOKIE_SECURE = True
    assert address_of_the_next_page(operator).startswith("https://testserver/api/v1/tenants?")


def test_nobody_makes_an_answer_lead_to_another_host(operator, settings):
    """What says so without being the host is not believed, and a foreign host is refused."""
    settings.ALLOWED_HOSTS = ["gpus.example.org"]
    said = {"Host": "gpus.example.org", "X-Forwarded-Host": "evil.example.org"}
    assert address_of_the_next_page(operator, **said).startswith("http://gpus.example.org/")
    foreign = operator.get("/tenants?page_size=1", headers={"Host": "evil.example.org"})
    assert is_error(foreign, 400, "malformed")
    assert b"cursor=" not in foreign.content
