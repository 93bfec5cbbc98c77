"""The ledger by API: who reads which lines, what of them, and the same as a file."""

import csv
import io

import pytest

from scheduler.core.model.plan import LedgerLine as Line
from scheduler.virtual_clusters.ledger.services import ledger_write
from scheduler.wiring import exports
from scheduler.wiring.clock import database_now
from tests.api.caller import caller, is_error
from tests.scheduler.builders import make_job, make_member, make_tenant, make_vc
from tests.scheduler.conftest import World


def write(line: Line, view: str = "research", person: str = ""):
    return ledger_write(line, view=view, person=person, at=database_now())


@pytest.fixture
def lines(world: World) -> dict[str, int]:
    """One line of each kind of visibility; by what they are about."""
    mine = make_job(tenant=world.tenant, virtual_cluster=world.virtual_cluster)
    speech, audio = make_tenant("speech"), make_tenant("audio-lab")
    theirs = make_job(tenant=speech, virtual_cluster=world.virtual_cluster)
    make_vc("private", members=[audio])
    trade = Line(
        kind="trade",
        party="vision",
        counterparty="speech",
        jobs=(mine.id, theirs.id),
        price=2.0,
        message="Tenant vision bought 2 V100 from speech; audio-lab/search-7 offered more than vision-2.",
        details={
            "rates": {"vision": 3.0, "speech": 1.0, "audio-lab": 2.0},
            "second": "audio-lab",
            "user": "mia",
            "counterparty_user": "sofia",
        },
    )
    return {
        "trade": write(trade).id,
        "others": write(Line(kind="trade", party="speech", counterparty="audio-lab")).id,
        "everyone": write(Line(kind="auction", message="=2 GPUs")).id,
        "elsewhere": write(Line(kind="auction"), view="private").id,
        "spare": write(Line(kind="auction"), view="spare").id,
        "market": write(
            Line(kind="take", party="speech", counterparty="private", price=1_500), "market", "user vera"
        ).id,
    }


def seen(by, query: str = "") -> list[int]:
    return [line["id"] for line in by.get(f"/ledger{query}").json()["results"]]


def test_members_read_what_concerns_them_and_no_names_of_others(world: World, lines: dict[str, int]) -> None:
    assert seen(world.operator) == sorted(lines.values(), reverse=True)
    assert seen(world.viewer) == [lines[name] for name in ("market", "spare", "everyone", "trade")]
    assert seen(world.stranger) == [lines["market"], lines["spare"]]
    trade = world.member.get(f"/ledger/{lines['trade']}").json()
    assert (trade["party"], trade["counterparty"]) == ("vision", "another tenant")
    assert trade["message"] == (
        "Tenant vision bought 2 V100 from another tenant; another tenant offered more than vision-2."
    )
    assert trade["details"] == {
        "rates": {"vision": 3.0, "another tenant": 1.0, "another tenant 2": 2.0},
        "second": "another tenant",
        "user": "mia",
    }
    assert len(trade["jobs"]) == 1
    whole = world.operator.get(f"/ledger/{lines['trade']}").json()
    assert (whole["counterparty"], len(whole["jobs"])) == ("speech", 2)
    # Virtual clusters are public, also one that is called as a tenant is; credits are no millicredits.
    take = world.member.get(f"/ledger/{lines['market']}").json()
    assert (take["party"], take["price"], take["person"]) == ("speech", 1.5, "user vera")
    is_error(world.member.get(f"/ledger/{lines['others']}"), 404, "not_found")


def test_filters_find_no_more_than_is_shown(world: World, lines: dict[str, int]) -> None:
    assert seen(world.member, "?kind=trade") == [lines["trade"]]
    assert seen(world.member, "?view=spare") == [lines["spare"]]
    assert seen(world.member, "?party=vision") == [lines["trade"]]
    # The name is hidden in the trade, so it does not lead there.
    assert seen(world.member, "?party=speech") == [lines["market"]]
    assert seen(world.operator, "?party=speech") == [lines[name] for name in ("market", "others", "trade")]
    mine, theirs = world.operator.get(f"/ledger/{lines['trade']}").json()["jobs"]
    assert seen(world.member, f"?job={mine}") == [lines["trade"]]
    assert seen(world.member, f"?job={theirs}") == []
    assert seen(world.operator, f"?job={theirs}") == [lines["trade"]]
    now = database_now().isoformat().replace("+00:00", "Z")
    assert seen(world.operator, f"?since={now}") == []
    assert len(seen(world.operator, f"?until={now}")) == 6
    assert seen(world.operator, "?round=7") == []
    told = is_error(world.member.get("/ledger?kind=trades"), 400, "invalid")
    assert told["fields"][0]["problem"] == "'trades' is not a choice here"
    assert told["fields"][0]["expected"].startswith("one of auction, bid, win, ")
    assert seen(world.member, "?kind=bid") == []
    is_error(world.member.get("/ledger/export?kind=trades"), 400, "invalid")
    own = write(Line(kind="swap"), view="spare").id
    assert seen(world.member, "?kind=swap") == [own]
    is_error(world.member.get("/ledger?since=yesterday"), 400, "invalid")
    is_error(world.member.get("/ledger?since=0315-03-12T00:00:00"), 400, "invalid")


def exported(by, query: str = "") -> list[list[str]]:
    answer = by.get(f"/ledger/export{query}")
    assert answer["Content-Type"] == "text/csv; charset=utf-8"
    return list(csv.reader(io.StringIO(answer.content.decode())))


def test_the_file_has_the_same_lines_and_no_formulas(
    world: World, lines: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exports, "_AT_ONCE", 2)
    heading, *rows = exported(world.member)
    assert [int(row[0]) for row in rows] == sorted(seen(world.member))
    everyone = dict(zip(heading, rows[1], strict=True))
    assert (everyone["message"], everyone["price"], everyone["gpus"]) == ("'=2 GPUs", "", "{}")
    assert "speech" not in rows[0][heading.index("message")]
    assert len(exported(world.operator, "?kind=trade")) == 3
    monkeypatch.setattr(exports, "MOST_EXPORTED", 2)
    _, *rows, note = exported(world.operator)
    assert [int(row[0]) for row in rows] == [lines["spare"], lines["market"]]
    assert "newest 2" in note[0]


def test_what_a_person_did_is_not_decided_again(world: World, lines: dict[str, int]) -> None:
    answer = is_error(world.member.get(f"/ledger/{lines['market']}/replay"), 409, "conflict")
    assert "was caused by a person" in answer["detail"]


def test_a_member_of_two_tenants_reads_both_names(world: World, lines: dict[str, int]) -> None:
    user = make_member(world.tenant, "both")
    user.memberships.create(tenant_id=make_job(tenant=make_tenant("red")).tenant_id, role="viewer")
    assert caller(user).get(f"/ledger/{lines['trade']}").json()["counterparty"] == "another tenant"
    user.memberships.create(tenant=type(world.tenant).objects.get(name="speech"), role="viewer")
    shown = caller(user).get(f"/ledger/{lines['trade']}").json()
    assert (shown["counterparty"], len(shown["jobs"])) == ("speech", 2)
