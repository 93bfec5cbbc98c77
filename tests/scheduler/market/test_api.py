"""The market by API: what each sees and may do, bad input, money to the thousandth, and what is in force."""

import csv
import io
from datetime import timedelta

import pytest
from django.utils import timezone

from scheduler.models import Loan, PolicyMemory
from tenants.models import VirtualCluster
from tests.api.caller import Caller, caller, is_error
from tests.scheduler.builders import (
    gpus_of,
    make_account,
    make_attempt,
    make_cells,
    make_job,
    make_lend_rule,
    make_loan,
    make_member,
    make_node,
    make_offer,
    make_tenant,
    make_vc,
)
from tests.scheduler.conftest import World, spec


@pytest.fixture
def admin(world: World) -> Caller:
    return caller(make_member(world.tenant, "ada", role="admin"))


@pytest.fixture
def speech(world: World) -> VirtualCluster:
    """Another tenant's, with four P100 and ten credits."""
    make_node("node-p", gpus=4, gpu_model="P100")
    speech = make_vc("speech", members=[make_tenant("speech")], guaranteed={"P100": 4})
    make_account(speech, 10)
    return speech


@pytest.fixture
def sara(speech: VirtualCluster) -> Caller:
    return caller(make_member(speech.members.get().tenant, "sara", role="admin"))


def in_hours(hours: float) -> str:
    return (timezone.now() + timedelta(hours=hours)).isoformat()


def offered(**fields: object) -> dict:
    return {
        "virtual_cluster": "research",
        "lot": {"gpus": {"V100": 2}},
        "ends_at": in_hours(2),
        **fields,
    }


def results(who: Caller, path: str) -> list[dict]:
    answer = who.get(f"/market/{path}")
    assert answer.status_code == 200, answer.content
    return answer.json()["results"]


def test_an_offer_is_made_taken_seen_and_given_back(
    world: World, admin: Caller, sara: Caller, speech: VirtualCluster
) -> None:
    answer = admin.post("/market/offers", offered(price_per_gpu_hour=0.125))
    assert answer.status_code == 201, answer.content
    offer = answer.json()
    assert (offer["lender"], offer["gpus"], offer["gpu_models"]) == ("research", 2, ["V100"])
    assert (offer["price_per_gpu_hour"], offer["cost_now"]) == (0.125, 0.5)
    assert (offer["state"], offer["may_withdraw"], offer["made_by"]) == ("open", True, "user ada")
    (seen,) = results(world.stranger, "offers?state=open&virtual_cluster=research")
    assert (seen["id"], seen["may_withdraw"]) == (offer["id"], False)
    assert results(world.stranger, "offers?state=taken") == []

    answer = sara.post(f"/market/offers/{offer['id']}/take", {"virtual_cluster": "speech"})
    assert answer.status_code == 201, answer.content
    loan = answer.json()
    assert (loan["lender"], loan["borrower"], loan["state"], loan["paid"]) == (
        "research",
        "speech",
        "active",
        0.5,
    )
    assert loan["may_end"]
    assert sara.get(f"/market/offers/{offer['id']}").json()["loan"] == loan["id"]
    mine = admin.get("/virtual-clusters/research").json()
    assert (mine["guaranteed"], mine["own_guaranteed"]) == ({"V100": 6}, {"V100": 8})
    (lent,) = mine["lent"]
    assert (lent["loan"], lent["to"], lent["lot"]["gpus"]) == (loan["id"], "speech", {"V100": 2})
    theirs = admin.get("/virtual-clusters/speech").json()
    assert (theirs["guaranteed"], theirs["borrowed"][0]["from"]) == ({"P100": 4, "V100": 2}, "research")
    assert set(theirs["usage"]) == {"P100", "V100"}

    assert [each["balance"] for each in results(world.operator, "accounts")] == [0.5, 9.5]
    (account,) = results(sara, "accounts")
    assert (account["spent"], account["granted"], account["may_act"]) == (0.5, 10.0, True)
    (account,) = results(world.member, "accounts")
    assert (account["earned"], account["may_act"]) == (0.5, False)
    heading, *rows = csv.reader(io.StringIO(sara.get("/market/transfers/export").content.decode()))
    assert heading == ["id", "at", "kind", "from", "to", "credits", "loan", "reason", "by", "round_number"]
    assert [row[2:6] for row in rows] == [
        ["grant", "bank", "speech", "10.0"],
        ["payment", "speech", "research", "0.5"],
    ]
    assert [each["kind"] for each in results(world.member, "transfers")] == ["payment"]

    is_error(admin.post(f"/market/loans/{loan['id']}/end"), 403, "not_allowed")
    ended = sara.post(f"/market/loans/{loan['id']}/end").json()
    assert (ended["state"], ended["ended_by"], ended["refunded"]) == ("ended", "user sara", 0.0)
    assert admin.get("/virtual-clusters/research").json()["guaranteed"] == {"V100": 8}


#: What is wrong with an offer, and what is said of which field.
WRONG: list[tuple[dict, str, str]] = [
    ({"price_per_gpu_hour": -0.001}, "price_per_gpu_hour", "does not fit; a number from 0 to 1000000"),
    ({"price_per_gpu_hour": 1_000_000.001}, "price_per_gpu_hour", "does not fit"),
    ({"price_per_gpu_hour": 1.0005}, "price_per_gpu_hour", "more than three decimals"),
    ({"price_per_gpu_hour": "1"}, "price_per_gpu_hour", "has the wrong type"),
    ({"price_per_gpu_hour": True}, "price_per_gpu_hour", "has the wrong type"),
    ({"lot": {"gpus": {"V100": 1.5}}}, "lot.gpus.V100", "has the wrong type"),
    ({"lot": {"gpus": {"V100": 0}}}, "lot.gpus.V100", "is too small"),
    ({"lot": {"gpus": {f"m{n}": 1 for n in range(65)}}}, "lot.gpus", "more than 64 entries"),
    ({"lot": {"gpus": {"V" * 200: 1}}}, "lot.gpus", "more than 127 characters"),
    ({"lot": {"racks": {}}}, "lot.racks", "is not a field here"),
    ({"lot": []}, "lot", "is not an object"),
    ({"ends_at": "tomorrow"}, "ends_at", "is not a date and time"),
    ({"ends_at": None}, "ends_at", "is null"),
    ({"ends_at": "9999-12-31T23:59:59Z"}, "ends_at", "more than 90 days"),
    ({"starts_at": "0001-01-01T00:00:00Z"}, "starts_at", "is past"),
    ({"in_return": {}}, "in_return", "is empty"),
]


def test_an_offer_that_makes_no_sense_is_refused_field_by_field(world: World, admin: Caller) -> None:
    for fields, field, words in WRONG:
        error = is_error(admin.post("/market/offers", offered(**fields)), 400, "invalid")
        told = {one["field"]: f"{one['problem']}; {one['expected']}" for one in error["fields"]}
        assert words in told[field], told


def test_prices_that_are_no_numbers_are_refused(world: World, admin: Caller) -> None:
    for price in (b"NaN", b"Infinity", b"-1e999", b"1e999"):
        body = b'{"virtual_cluster": "research", "lot": {}, "price_per_gpu_hour": %b,' % price
        body += b'"ends_at": "%b"}' % in_hours(1).encode()
        is_error(admin.post("/market/offers", body), 400, "malformed")


def test_what_is_in_use_is_not_lent_from_now_on(world: World, admin: Caller) -> None:
    old, new = (make_job(tenant=world.tenant, virtual_cluster=world.virtual_cluster, gpus=4) for _ in "ab")
    for number, job in enumerate((old, new)):
        make_attempt(job, gpus_of(world.node)[number * 4 : number * 4 + 4])
    error = is_error(admin.post("/market/offers", offered()), 409, "conflict")
    assert f"Guaranteed jobs of research use 2 V100: job {new.id}." in error["detail"]
    assert error["fields"][0]["field"] == "lot"
    assert results(admin, "offers") == []
    later = admin.post("/market/offers", offered(starts_at=in_hours(1)))
    assert later.status_code == 201


def test_rules_are_read_by_members_and_made_by_owners(
    world: World, admin: Caller, speech: VirtualCluster
) -> None:
    lend = {"kind": "lend", "lot": {"gpus": {"V100": 4}}, "idle_seconds": 60, "lend_seconds": 3_600}
    borrow = {"kind": "borrow", "most_gpus": 2, "waiting_seconds": 60, "gpu_models": ["P100"]}
    for body in (lend, borrow):
        answer = admin.post("/market/rules", {"virtual_cluster": "research", **body, "price_per_gpu_hour": 2})
        assert answer.status_code == 201, answer.content
        assert answer.json()["price_per_gpu_hour"] == 2.0
    theirs = make_lend_rule(speech, {"P100": 1})
    assert {rule["kind"] for rule in results(world.member, "rules")} == {"lend", "borrow"}
    assert len(results(world.operator, "rules")) == 3
    assert results(world.operator, "rules?virtual_cluster=speech")[0]["id"] == theirs.id
    (mine, _) = results(admin, "rules")
    is_error(admin.delete(f"/market/rules/{theirs.id}"), 404, "not_found")
    assert admin.delete(f"/market/rules/{mine['id']}").status_code == 204
    assert len(results(admin, "rules")) == 1
    wrong = {"virtual_cluster": "research", **lend, "most_gpus": 2, "lend_seconds": None}
    error = is_error(admin.post("/market/rules", wrong), 400, "invalid")
    assert {one["field"]: one["problem"] for one in error["fields"]} == {
        "lend_seconds": "is missing",
        "most_gpus": "is not a field of a rule to lend",
    }


def test_operators_grant_credits_and_allowances(world: World, speech: VirtualCluster) -> None:
    account = world.operator.post("/market/accounts/speech/grant", {"credits": -2.5, "reason": "unused"})
    assert account.json()["balance"] == 7.5
    error = is_error(world.operator.post("/market/accounts/speech/grant", {"credits": -8}), 409, "conflict")
    assert error["fields"][0]["expected"] == "at most 7.5"
    for wrong in ({"credits": 0.0001}, {"credits": 2e9}, {}, {"credits": None}):
        is_error(world.operator.post("/market/accounts/speech/grant", wrong), 400, "invalid")
    allowance = {"credits": 1.5, "every_seconds": 3_600}
    account = world.operator.put("/market/accounts/speech/allowance", allowance).json()
    assert account["balance"] == 9.0
    assert account["allowance"]["every_seconds"] == 3_600
    for wrong in ({"credits": 0, "every_seconds": 60}, {"credits": 1, "every_seconds": 59}):
        is_error(world.operator.put("/market/accounts/speech/allowance", wrong), 400, "invalid")
    assert world.operator.delete("/market/accounts/speech/allowance").status_code == 204
    is_error(world.operator.delete("/market/accounts/speech/allowance"), 404, "not_found")


def test_lists_come_in_pages_and_by_state(world: World, speech: VirtualCluster) -> None:
    research = world.virtual_cluster
    loans = [
        make_loan(speech, research, {"P100": 1}, since_hours=-1),
        make_loan(speech, research, {"P100": 1}),
        make_loan(speech, research, {"P100": 1}, since_hours=3, hours=-1),
    ]
    for state, loan in zip(("coming", "active", "ended"), loans, strict=True):
        (found,) = results(world.viewer, f"loans?state={state}&virtual_cluster=research")
        assert (found["id"], found["state"]) == (loan.id, state)
    over = make_offer(speech, {"P100": 1}, hours=-1)
    assert [each["id"] for each in results(world.viewer, "offers?state=expired")] == [over.id]
    assert results(world.viewer, "offers?state=open") == []
    is_error(world.viewer.get("/market/loans?state=lost"), 400, "invalid")
    first = world.viewer.get("/market/loans?page_size=2").json()
    second = world.viewer.get(first["next"]).json()
    assert [each["id"] for each in (*first["results"], *second["results"])] == [
        loan.id for loan in reversed(loans)
    ]
    for path in ("offers", "loans"):
        is_error(world.viewer.get(f"/market/{path}/{2**40}"), 404, "not_found")
        is_error(world.viewer.get(f"/market/{path}/{2**70}"), 404, "not_found")


def test_a_job_may_be_submitted_on_what_is_borrowed_and_on_what_will_come_back(
    world: World, speech: VirtualCluster
) -> None:
    one = {"tenant": "vision", "virtual_cluster": "research", "guarantee": "guaranteed"}
    on_p100 = spec(**one, gpus=2, gpu_model="P100")
    error = is_error(world.member.post("/jobs", on_p100), 409, "quota_exceeded")
    assert "research guarantees 8 V100" in error["detail"]
    make_loan(speech, world.virtual_cluster, {"P100": 2}, in_return={"gpus": {"V100": 6}, "cells": {}})
    answer = world.member.post("/jobs", on_p100)
    assert answer.status_code == 201, answer.content
    assert world.member.post("/jobs", spec(**one, gpus=8, gpu_model="V100")).status_code == 201


def test_a_job_may_be_submitted_for_what_a_rule_may_borrow(world: World, speech: VirtualCluster) -> None:
    one = {"tenant": "vision", "virtual_cluster": "research", "guarantee": "guaranteed", "gpu_model": "P100"}
    rule = {"virtual_cluster": "research", "kind": "borrow", "most_gpus": 2, "waiting_seconds": 60}
    assert world.operator.post("/market/rules", {**rule, "gpu_models": ["V100"]}).status_code == 201
    is_error(world.member.post("/jobs", spec(**one, gpus=2)), 409, "quota_exceeded")
    assert world.operator.post("/market/rules", {**rule, "gpu_models": ["P100"]}).status_code == 201
    assert world.member.post("/jobs", spec(**one, gpus=2)).status_code == 201
    # More than the rule borrows at once, it still could never have.
    is_error(world.member.post("/jobs", spec(**one, gpus=3)), 409, "quota_exceeded")


def test_cells_on_loan_are_shown_with_their_owner(world: World, speech: VirtualCluster) -> None:
    make_cells(
        {
            "types": {"PAIR": {"of": "V100", "count": 2}, "NODE": {"of": "PAIR", "count": 4, "node": True}},
            "physical": [{"type": "NODE", "name": "node-a", "nodes": ["node-a"]}],
            "virtual_clusters": {"research": {"cells": {"PAIR": 3}}},
        }
    )
    loan = make_loan(world.virtual_cluster, speech, {"V100": 2}, cells={"PAIR": 1})
    (line,) = world.viewer.get("/virtual-clusters/speech/cells").json()["cells"]
    assert (line["type"], line["owned"]) == ("PAIR", 1)
    (line,) = world.viewer.get("/virtual-clusters/research/cells").json()["cells"]
    assert line["owned"] == 2
    bound = {"speech": [["NODE", 1, 0]], "research": [["NODE", 1, 1]]}
    PolicyMemory.objects.create(view="cells", memory={"bound": bound})
    tree = world.viewer.get("/cells/tree?at=node-a").json()["results"]
    assert [cell["virtual_cluster"] for cell in tree] == ["speech", "research", None, None]
    assert tree[0]["on_loan"]["from"] == "research"
    assert tree[0]["on_loan"]["until"].startswith(f"{loan.ends_at:%Y-%m-%dT%H:%M}")
    assert tree[1]["on_loan"] is None
    assert Loan.objects.count() == 1


def test_what_is_owned_stays_when_something_else_is_changed(world: World, speech: VirtualCluster) -> None:
    make_loan(world.virtual_cluster, speech, {"V100": 2})
    changed = world.operator.put("/virtual-clusters/research", {"title": "Research"}).json()
    assert (changed["guaranteed"], changed["own_guaranteed"]) == ({"V100": 6}, {"V100": 8})
    error = is_error(
        world.operator.put("/virtual-clusters/research", {"guaranteed": {"V100": 1}}), 409, "conflict"
    )
    assert "of 2 V100 from research to speech" in error["fields"][0]["problem"]
