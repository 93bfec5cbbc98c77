"""A parameter that a list does not know is refused: ignored, it would answer another question."""

import pytest

from tests.api.caller import caller, is_error
from tests.scheduler.builders import make_user

pytestmark = pytest.mark.django_db


@pytest.fixture
def operator():
    return caller(make_user(operator=True))


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/jobs?submitted_after=2026-11-01", "submitted_by"),
        ("/jobs/counts?stat=queued", "state"),
        ("/jobs?ordering=-gpus", "array, cursor, ended_since"),
        ("/nodes?name=bed", "cursor, page_size, q"),
        ("/events?tennant=red", "tenant"),
        ("/jobs/usage?user=ann", "cursor, page_size, tenant"),
        ("/market/offers?vc=red", ""),
        ("/cluster/usage?since=1h", ""),
        # Where there are no pages none can be asked for.
        ("/jobs/counts?cursor=after.3", "array, ended_since"),
        ("/audit/export?page_size=5", "action, address, after"),
        ("/cluster/usage?page_size=5", "minutes"),
    ],
)
def test_it_is_named_with_what_would_be_right(operator, path: str, expected: str) -> None:
    answer = operator.get(path)
    is_error(answer, 400, "invalid")
    [problem] = answer.json()["fields"]
    assert problem["problem"] == "is not a parameter here"
    assert problem["expected"].startswith(expected)


def test_known_ones_go_on_to_work(operator) -> None:
    for path in (
        "/jobs?state=queued&page_size=5",
        "/audit/export?after=0",
        "/tokens?everybody=true",
        "/jobs/usage?page_size=5",
    ):
        assert operator.get(path).status_code == 200, path
