"""`allot market` against the real REST API."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest

from allot import schema
from allot.client import Client
from allot.errors import WrongUse
from allot.times import instant, span_seconds
from scheduler.models import Loan, MarketRule, Offer
from tests.allot.in_process import Allot, signed_in
from tests.api.caller import make_token
from tests.scheduler.builders import make_account, make_member, make_node, make_tenant, make_user, make_vc


@pytest.fixture
def tokens(live_server: Any, redis_url: str) -> dict[str, str]:
    """Of admins of two virtual clusters with GPUs and credits, and of an operator."""
    found = {"operator": make_token(make_user("olga", operator=True))}
    for name, model in (("speech", "P100"), ("vision", "V100")):
        make_node(f"{name}-1", gpus=4, gpu_model=model)
        tenant = make_tenant(name)
        make_account(make_vc(name, members=[tenant], guaranteed={model: 4}), 20)
        found[name] = make_token(make_member(tenant, f"{name}-admin", role="admin"))
    return found


@pytest.fixture
def speech(live_server: Any, tokens: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Allot:
    return signed_in(monkeypatch, str(live_server.url), tokens["speech"])


def local_time(loan: Loan) -> str:
    return f"{loan.ends_at.astimezone():%Y-%m-%d %H:%M:%S} (loan {loan.id})"


def test_an_offer_is_made_listed_taken_and_ended(
    speech: Allot, tokens: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = speech("market", "offer", "speech", "--gpus", "P100=2", "--until", "2h", "--price", "0.125")
    offer = Offer.objects.get()
    assert made.stdout.startswith(f"offer {offer.id}: 2 P100 of speech until ")
    assert made.stdout.endswith(", 0.5 credits if it is taken now\n")
    lines = speech("market", "offers").stdout.splitlines()
    assert lines[0].split()[:3] == ["OFFER", "VC", "LENDS"]
    assert lines[1].split()[:6] == [str(offer.id), "speech", "2", "P100", "2", "once"]
    assert lines[1].split()[-4:] == ["0.125", "0.5", "-", "OPEN"]

    own = speech("market", "take", str(offer.id), "speech")
    assert (own.exit_code, "speech offers this itself" in own.stderr) == (1, True)
    monkeypatch.setenv("ALLOT_TOKEN", tokens["vision"])
    taken = speech("market", "take", str(offer.id), "vision")
    loan = Loan.objects.get()
    assert taken.stdout.startswith(f"loan {loan.id}: 2 P100 of speech for vision until ")
    assert taken.stdout.endswith(", 0.5 credits paid\n")
    (row,) = speech("market", "loans").stdout.splitlines()[1:]
    assert row.split()[:5] == [str(loan.id), "speech", "vision", "2", "P100"]
    assert "1h59m" in row
    assert [json.loads(speech("market", "offers", "-o", "json", "--state", "taken").stdout)[0]["id"]] == [
        offer.id
    ]
    csv = speech("market", "transfers", "--csv").stdout.splitlines()
    assert csv[0].startswith("id,at,kind,from,to,credits,")
    assert "payment,vision,speech,0.5," in csv[-1]
    assert speech("market", "transfers").stdout.splitlines()[1].split()[2:6] == [
        "payment",
        "vision",
        "speech",
        "0.5",
    ]

    assert f"  Borrowed     2 P100 of speech until {local_time(loan)}" in speech("vcs", "vision").stdout
    assert f"  Lent         2 P100 to vision until {local_time(loan)}" in speech("vcs", "speech").stdout

    monkeypatch.setenv("ALLOT_TOKEN", tokens["operator"])
    ended = speech("market", "end", str(loan.id)).stdout
    assert ended == f"loan {loan.id} has ended; 0.499 of 0.5 credits were refunded\n"
    assert speech("market", "end", str(loan.id)).exit_code == 1
    assert speech("market", "loans").stdout.splitlines()[1:] == []
    assert "ENDED" in speech("market", "loans", "--state", "all").stdout


def test_offers_for_cells_and_for_barter_say_what_is_wrong(speech: Allot) -> None:
    offered = ("market", "offer", "speech", "--until", "2h")
    assert "there are no cells of type NODE" in speech(*offered, "--cells", "NODE=1").stderr
    missing = speech("market", "offer", "speech", "--gpus", "P100=2")
    assert (missing.exit_code, "--until" in missing.stderr) == (2, True)
    for wrong in ("P100", "P100=", "=2", "P100=two", "P100=-1"):
        assert speech(*offered, "--gpus", wrong).exit_code == 2
    for wrong in ("soon", "2 hours", "99999h", "2026-13-01"):
        assert speech("market", "offer", "speech", "--gpus", "P100=1", "--until", wrong).exit_code == 2
    barter = speech(*offered, "--from", "1h", "--gpus", "P100=1", "--return-gpus", "V100=1")
    assert "in return for 1 V100" in barter.stdout
    offer = Offer.objects.get()
    assert offer.starts_at is not None
    assert abs(offer.ends_at - offer.starts_at - timedelta(hours=2)) < timedelta(seconds=1)
    assert speech("market", "withdraw", str(offer.id)).stdout == f"offer {offer.id} is withdrawn\n"
    assert speech("market", "withdraw", str(offer.id)).exit_code == 1


def test_rules_are_added_in_words_and_removed(speech: Allot) -> None:
    lend = speech(
        *("market", "rule", "add", "lend", "speech", "--gpus", "P100=3", "--idle", "15m"),
        *("--for", "2h", "--price", "0.5"),
    )
    lending = MarketRule.objects.get()
    words = "offers up to 3 P100 idle for 15m, for 2h, at 0.5 credits a GPU-hour or more"
    assert lend.stdout == f"rule {lending.id}: speech {words}\n"
    borrow = speech("market", "rule", "add", "borrow", "speech", "--most", "4", "--model", "V100")
    words = "borrows up to 4 GPUs when jobs have waited 5m: V100, at 0 credits a GPU-hour or less"
    assert words in borrow.stdout
    assert speech("market", "rule", "add", "borrow", "speech").exit_code == 2
    assert [line.split()[2] for line in speech("market", "rules").stdout.splitlines()[1:]] == [
        "borrow",
        "lend",
    ]
    speech("market", "rule", "remove", str(lending.id))
    assert len(speech("market", "rules").stdout.splitlines()) == 2
    assert speech("market", "rule", "remove", str(lending.id)).exit_code == 3


def test_operators_grant_credits(
    speech: Allot, tokens: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = speech("market", "grant", "speech", "5")
    assert (refused.exit_code, "operators" in refused.stderr) == (3, True)
    monkeypatch.setenv("ALLOT_TOKEN", tokens["operator"])
    assert speech("market", "grant", "speech", "-2.5", "--reason", "x").stdout == "speech has 17.5 credits\n"
    assert "at most 17.5" in speech("market", "grant", "speech", "-17.501").stderr
    said = speech("market", "allowance", "speech", "10", "--every", "12h").stdout
    assert said == "speech is granted 10 credits every 12h and has 27.5\n"
    rows = [line.split() for line in speech("market", "accounts").stdout.splitlines()]
    assert rows[0] == ["VC", "CREDITS", "GRANTED", "EARNED", "SPENT", "ALLOWANCE"]
    assert rows[1][:9] == ["speech", "27.5", "27.5", "0", "0", "10", "every", "12h,", "next"]
    assert speech("market", "allowance", "speech", "--remove").exit_code == 0
    assert speech("market", "allowance", "speech").exit_code == 2


def test_the_types_are_what_the_api_answers(live_server: Any, tokens: dict[str, str]) -> None:
    with Client(str(live_server.url), token=tokens["operator"]) as client:
        lot = {"gpus": {"P100": 1}}
        wanted = {"virtual_cluster": "speech", "lot": lot, "ends_at": instant("2h", "").isoformat()}
        offer = client.market.offer({**wanted, "price_per_gpu_hour": 1})
        rule = client.market.add_rule(
            {
                "virtual_cluster": "speech",
                "kind": "lend",
                "lot": lot,
                "idle_seconds": 60,
                "lend_seconds": 60,
            }
        )
        client.market.set_allowance("speech", 1, every_seconds=3_600)
        for value, kind in (
            (offer, schema.Offer),
            (client.market.take(offer["id"], "vision"), schema.Loan),
            (rule, schema.MarketRule),
            (list(client.market.accounts()), list[schema.CreditAccount]),
            (list(client.market.transfers()), list[schema.CreditTransfer]),
            (client.virtual_cluster("vision")["borrowed"], list[schema.IncomingLoan]),
            (client.virtual_cluster("speech")["lent"], list[schema.OutgoingLoan]),
        ):
            msgspec.convert(value, kind, strict=True)


def test_times_as_people_write_them() -> None:
    assert span_seconds("1h30m", "--for") == 5_400
    assert span_seconds("0.5d", "--for") == 43_200
    noon = datetime.fromisoformat("2026-12-01T12:00:00+00:00")
    assert instant("2h", "--until", after=noon) == noon + timedelta(hours=2)
    assert instant("2026-12-01T13:00+01:00", "--until") == noon
    for wrong in ("", "h", "2", "-2h", "2026"):
        with pytest.raises(WrongUse, match="--until"):
            instant(wrong, "--until")
