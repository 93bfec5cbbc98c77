"""A parameter that a list does not know is refused: ignored, it would answer another question."""

import pytest

from tests.api.caller import caller, is_error
from tests.scheduler.builders import make_job, make_user

pytestmark = pytest.mark.django_db


@pytest.fixture
def operator():
    return caller(make_user(operator=True))


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/jobs?ordering=-gpus", "array, cursor, ended_since"),
        # Near to no name that there is, though "node" has three of its letters.
        ("/jobs?nope=1", "array, cursor, ended_since"),
        ("/nodes?name=bed", "cursor, page_size, q"),
        ("/jobs/usage?user=ann", "cursor, page_size, tenant"),
        ("/market/offers?vc=red", ""),
        ("/cluster/usage?since=1h", ""),
        # Where there are no pages none can be asked for.
        ("/jobs/counts?cursor=after.3", "array, ended_since"),
        ("/audit/export?page_size=5", "action, address, after"),
        ("/cluster/usage?page_size=5", "minutes"),
        ("/map/jobs?tenant=red", "cursor, page_size"),
        ("/map/nodes?q=bed", "cursor, page_size"),
        ("/gpu-models?q=V100", "cursor, page_size"),
        ("/market/accounts?virtual_cluster=red", "cursor, page_size"),
        ("/shared-gpus?node=bed", "cursor, page_size"),
        ("/failure-rules?class=user", "none"),
        ("/throughputs/interference?model=V100", "none"),
        ("/virtual-clusters/{view}/targets/jobs?tenant=red", "cursor, page_size"),
        ("/jobs/{job}/events?kind=job.ended", "cursor, page_size"),
        ("/jobs/{job}/sessions?user=ann", "cursor, page_size"),
    ],
)
def test_it_is_named_with_what_would_be_right(operator, path: str, expected: str) -> None:
    job = make_job()
    answer = operator.get(path.format(job=job.id, view=job.virtual_cluster.name))
    is_error(answer, 400, "invalid")
    [problem] = answer.json()["fields"]
    assert problem["problem"] == "is not a parameter here"
    assert problem["expected"].startswith(expected)


@pytest.mark.parametrize(
    ("path", "meant"), [("/jobs/counts?stat=queued", "state"), ("/events?tennant=red", "tenant")]
)
def test_a_name_that_is_near_is_asked_about(operator, path: str, meant: str) -> None:
    answer = operator.get(path)
    [problem] = is_error(answer, 400, "invalid")["fields"]
    assert problem["problem"] == f'is not a parameter here (did you mean "{meant}"?)'
    assert meant in problem["expected"].split(", ")
    assert problem["expected"].startswith(("array, ended_since", "cursor, "))


def test_known_ones_go_on_to_work(operator) -> None:
    for path in (
        "/jobs?state=queued&page_size=5",
        "/audit/export?after=0",
        "/tokens?everybody=true",
        "/jobs/usage?page_size=5",
        "/gpu-models?page_size=200",
    ):
        assert operator.get(path).status_code == 200, path


@pytest.mark.parametrize(
    ("path", "problem", "expected"),
    [
        ("/jobs?guarantee=x", "'x' is not a choice here", "one of guaranteed, opportunistic"),
        (
            "/jobs?state=queued,x",
            "'queued,x' is not a choice here",
            "one or more, with commas between them, of",
        ),
        ("/jobs?id=3,x", "'3,x' is not a list of numbers", "whole numbers from 0, with commas between them"),
        ("/events?job=x", "'x' is not a number", "a whole number from 0"),
        ("/failures?since=x", "'x' is not an instant", "an instant such as 2026-12-01T18:00:00Z"),
        ("/market/offers?state=x", '"x" is not a valid choice.', "one of "),
        ("/events?job=-1", "'-1' is too small", "a whole number from 0"),
        # These would be answered as if nothing were asked.
        ("/users?is_active=no", "'no' is neither true nor false", "true or false"),
        ("/jobs?fold=1", "'1' is neither true nor false", "true or false"),
    ],
)
def test_a_wrong_value_is_named_with_what_would_be_right(operator, path, problem, expected) -> None:
    answer = operator.get(path)
    is_error(answer, 400, "invalid")
    [field] = answer.json()["fields"]
    assert field["problem"] == problem
    assert field["expected"].startswith(expected)


def test_an_empty_value_asks_for_nothing(operator) -> None:
    for query in ("/users?is_active=", "/jobs?fold=&guarantee=&since=&id="):
        assert operator.get(query).status_code == 200, query
