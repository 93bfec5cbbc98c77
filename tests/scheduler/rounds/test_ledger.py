"""The ledger of rounds: written with their plans, there for good, and given once more by the same facts."""

import io
from dataclasses import dataclass
from datetime import timedelta

import pytest
from django.core.management import CommandError, call_command
from django.db import IntegrityError, connection, transaction

from scheduler.core.model.plan import Decision, Grant
from scheduler.core.model.plan import LedgerLine as Line
from scheduler.core.round import registry
from scheduler.models import LedgerLine, Round
from scheduler.rounds import replay as replaying
from scheduler.rounds import run
from scheduler.rounds.replay import replay
from scheduler.rounds.run import run_round
from scheduler.virtual_clusters.ledger.services import ledger_write, prune_ledger
from scheduler.wiring.clock import database_now
from tenants.errors import Conflict, TooManyRequests
from tests.scheduler.builders import make_job, make_member, make_node, make_tenant, make_vc

pytestmark = pytest.mark.django_db


@dataclass(frozen=True, slots=True, kw_only=True)
class Auctioneer:
    """Starts every job and says for what it went: chance and the clock are in its lines."""

    def allocate(self, view, memory):
        grants = tuple(Grant(jobs=(job.id,), gpus=job.gpus) for job in view.jobs.values())
        price = view.rng.random()
        lines = [
            Line(
                kind="win",
                party=job.tenant,
                counterparty="nobody",
                jobs=(job.id,),
                gpus={"V100": 2, "P100": 0.5},
                price=price,
                rho_before=float("inf"),
                rho_after=view.now,
                message=f"Tenant {job.tenant} won.",
                details={"table": [[1, 0.25], [2, float("nan")]]},
            )
            for job in view.jobs.values()
        ]
        return Decision(grants=grants, ledger=(Line(kind="auction", details={"bids": len(lines)}), *lines))


@pytest.fixture
def auctioned(monkeypatch):
    """A round in which two tenants of a virtual cluster won something."""
    monkeypatch.setitem(registry.POLICIES, "auctioneer", Auctioneer)
    make_node(gpus=8)
    tenants = [make_tenant("speech"), make_tenant("vision")]
    vc = make_vc("shared", members=tenants, guaranteed={"V100": 8}, policy="auctioneer")
    jobs = [make_job(tenant=tenant, virtual_cluster=vc, gpus=2) for tenant in tenants]
    number = run_round()
    assert Round.objects.get(number=number).error == ""
    return number, jobs


def test_a_round_writes_its_lines_and_each_is_decided_again_exactly(auctioned):
    number, jobs = auctioned
    rows = list(LedgerLine.objects.order_by("id"))
    assert [(row.position, row.kind, row.party) for row in rows] == [
        (0, "auction", ""), (1, "win", "speech"), (2, "win", "vision"),
    ]  # fmt: skip
    assert {(row.round_number, row.view, row.person) for row in rows} == {(number, "shared", "")}
    won = rows[2]
    assert (won.jobs, won.gpus) == ([jobs[1].id], {"V100": 2, "P100": 0.5})
    # JSON and people know neither an infinity nor what is no number.
    assert (won.rho_before, won.details) == (None, {"table": [[1, 0.25], [2, None]]})
    for row in rows:
        again = replay(row)
        assert again.same
        assert again.line.price == row.price
    out = io.StringIO()
    call_command("replay_round", number, stdout=out)
    assert "3 lines of the ledger" in out.getvalue()


def test_trades_of_gandiva_fair_are_decided_again_exactly():
    make_node(gpus=4)
    make_node(gpus=4, gpu_model="K80")
    tenants = [make_tenant("speech"), make_tenant("vision")]
    vc = make_vc("shared", members=tenants, guaranteed={"V100": 4, "K80": 4}, policy="gandiva_fair")
    for tenant, fast in zip(tenants, (1.25, 4.0), strict=True):
        user = make_member(tenant)
        for _ in range(6):
            job = make_job(tenant=tenant, virtual_cluster=vc, submitted_by=user)
            job.shape["throughput"] = {"V100": fast, "K80": 1.0}
            job.save()
    number = run_round()
    rows = list(LedgerLine.objects.filter(round_number=number))
    assert {row.kind for row in rows} == {"entitled", "trade"}
    (trade,) = [row for row in rows if row.kind == "trade"]
    assert (trade.party, trade.counterparty) == ("vision", "speech")
    assert all(replay(row).same for row in rows)
    out = io.StringIO()
    call_command("replay_round", number, stdout=out)
    assert "3 lines of the ledger" in out.getvalue()


def test_auctions_of_themis_are_decided_again_exactly():
    make_node(gpus=4)
    tenants = [make_tenant("speech"), make_tenant("vision")]
    vc = make_vc("shared", members=tenants, guaranteed={"V100": 4}, policy="themis")
    for number in range(6):
        make_job(tenant=tenants[number % 2], virtual_cluster=vc, gpus=1 + number % 2)
    numbers = [run_round(), run_round()]
    rows = list(LedgerLine.objects.filter(round_number__in=numbers))
    assert {"auction", "bid", "win"} <= {row.kind for row in rows}
    assert all(replay(row).same for row in rows)
    call_command("replay_round", *numbers, stdout=io.StringIO())


def test_what_would_keep_a_page_waiting_is_left_to_the_command(monkeypatch):
    make_node(gpus=4)
    tenant = make_tenant("speech")
    vc = make_vc("shared", members=[tenant], guaranteed={"V100": 4}, policy="themis")
    for _ in range(6):
        make_job(tenant=tenant, virtual_cluster=vc)
    number = run_round()
    row = LedgerLine.objects.filter(round_number=number).first()
    by_command = f"replay_round {number}"
    Round.objects.update(decide_seconds=8.0)
    with pytest.raises(Conflict, match=rf"took 8.0 s; .*{by_command}"):
        replay(row)
    Round.objects.update(decide_seconds=0.0)
    monkeypatch.setattr(replaying, "MOST_BYTES", 9)
    with pytest.raises(Conflict, match=rf"MiB; .*{by_command}"):
        replay(row)
    monkeypatch.undo()
    with replaying._turn, pytest.raises(TooManyRequests, match="in a moment"):
        replay(row)
    monkeypatch.setattr(replaying, "MOST_SECONDS", 0.0)
    with pytest.raises(Conflict, match=rf"not done within 0 s; .*{by_command}"):
        replay(row)


def test_a_line_that_the_facts_do_not_give_is_found_out(auctioned):
    number, _ = auctioned
    at = database_now()
    LedgerLine.objects.create(
        at=at, round_number=number, view="shared", position=3, kind="win", party="speech"
    )
    added = LedgerLine.objects.get(position=3)
    assert (replay(added).line, replay(added).same) == (None, False)
    with pytest.raises(CommandError, match="line 3 of shared: is no longer decided"):
        call_command("replay_round", number)
    Round.objects.update(snapshot=None)
    with pytest.raises(Conflict, match="no longer kept"):
        replay(added)
    person = ledger_write(Line(kind="offer", party="shared"), person="user vera", at=at)
    with pytest.raises(Conflict, match="was caused by a person"):
        replay(person)


def test_a_round_that_is_overtaken_or_breaks_writes_no_line(auctioned, monkeypatch):
    before = LedgerLine.objects.count()
    real = run.rounds().decide

    def too_slowly(snapshot, *how):
        with connection.cursor() as cursor:
            cursor.execute("UPDATE scheduler_leadership SET number = number + 1")
        return real(snapshot, *how)

    with monkeypatch.context() as patch:
        patch.setattr(run, "_record", lambda *_, **__: 1 / 0)
        number = run_round()
    assert Round.objects.get(number=number).error.startswith("ZeroDivisionError")
    with monkeypatch.context() as patch:
        patch.setattr(run.rounds(), "decide", too_slowly)
        run_round()
    assert LedgerLine.objects.count() == before


def refused(statement: str) -> None:
    with (
        pytest.raises(IntegrityError, match="is for good"),
        transaction.atomic(),
        connection.cursor() as cursor,
    ):
        cursor.execute(statement)


def test_the_database_refuses_to_change_a_line(auctioned):
    refused("UPDATE scheduler_ledgerline SET price = 0")
    refused("DELETE FROM scheduler_ledgerline")
    # Not even the setting for pruning helps when it names an instant before the line's.
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL allot.ledger_kept_since = '2020-01-01T00:00:00Z'")
    refused("DELETE FROM scheduler_ledgerline")
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL allot.ledger_kept_since = '2120-01-01T00:00:00Z'")
    refused("UPDATE scheduler_ledgerline SET price = 0")


def test_lines_are_pruned_by_age_alone(auctioned, settings):
    at = database_now() - timedelta(days=settings.CONFIG.ledger_days_kept)
    old = ledger_write(Line(kind="offer"), person="user vera", at=at - timedelta(seconds=1))
    young = ledger_write(Line(kind="offer"), person="user vera", at=at + timedelta(hours=1))
    assert prune_ledger() == 1
    assert not LedgerLine.objects.filter(id=old.id).exists()
    assert LedgerLine.objects.filter(id=young.id).exists()
