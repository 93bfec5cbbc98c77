"""`allot ledger` and `allot fairness` against the real REST API."""

from __future__ import annotations

import csv
import io
from datetime import timedelta
from pathlib import Path
from typing import Any

import arro3.io
import msgspec
import pytest

from allot import schema
from allot.client import Client
from allot.commands.ledger import new_lines
from scheduler.core.model.plan import LedgerLine as Line
from scheduler.forecasts.fairness.services import account_for_rounds
from scheduler.models import FairnessViolation
from scheduler.rounds.run import run_round
from scheduler.virtual_clusters.ledger.services import ledger_write
from scheduler.wiring.clock import database_now
from tests.allot.in_process import Allot, signed_in
from tests.api.caller import make_token
from tests.scheduler.builders import make_job, make_member, make_node, make_tenant, make_vc


@pytest.fixture
def token(live_server: Any, redis_url: str) -> str:
    """Of a member of vision, one of two tenants of a virtual cluster in which something happened."""
    make_node("v100-1", gpus=4)
    vision, speech = make_tenant("vision"), make_tenant("speech")
    shared = make_vc("shared", members=[vision, speech], guaranteed={"V100": 4}, policy="gandiva_fair")
    for tenant in (vision, speech):
        make_job(tenant=tenant, virtual_cluster=shared, gpus=2)
    run_round()
    run_round()
    account_for_rounds()
    FairnessViolation.objects.create(
        virtual_cluster="shared",
        tenant="vision",
        began_at=database_now() - timedelta(minutes=5),
        worst=0.5,
        lost_gpu_seconds=7_200,
        cause="quota",
        message="vision holds 2 of the 2 GPUs that its quota allows.",
        round_number=2,
    )
    offer = Line(kind="offer", party="shared", gpus={"V100": 2}, price=1_500, message="2 V100 until tonight.")
    ledger_write(offer, person="user vera", at=database_now())
    return make_token(make_member(vision, "vera"))


@pytest.fixture
def allot(token: str, live_server: Any, monkeypatch: pytest.MonkeyPatch) -> Allot:
    return signed_in(monkeypatch, str(live_server.url), token)


def test_the_ledger_is_listed_filtered_exported_and_decided_again(allot: Allot) -> None:
    heading, *lines = allot("ledger").stdout.splitlines()
    assert heading.split()[:6] == ["LINE", "AT", "ROUND", "VIEW", "KIND", "PARTY"]
    entitled, offer = lines
    assert "vision is entitled to 2 V100." in entitled
    assert "1.5" in offer
    assert "2 V100 until tonight." in offer
    number = entitled.split()[0]
    (only,) = allot("ledger", "--kind", "offer").stdout.splitlines()[1:]
    assert only.split() == offer.split()
    (only,) = allot("ledger", "--vc", "shared", "--tenant", "vision").stdout.splitlines()[1:]
    assert only.split() == entitled.split()
    assert len(allot("ledger", "--round", "999999").stdout.splitlines()) == 1
    rows = list(csv.DictReader(io.StringIO(allot("ledger", "--csv").stdout)))
    assert [row["kind"] for row in rows] == ["entitled", "offer"]
    assert "exactly" in allot("ledger", "--replay", number).stdout
    assert allot("ledger", "--replay", offer.split()[0]).exit_code == 1
    assert allot("ledger", "--replay", "999999").exit_code == 3
    assert allot("ledger", "--follow", "--csv").exit_code == 2


def test_the_ledger_and_usage_and_jobs_are_written_as_parquet(allot: Allot, tmp_path: Path) -> None:
    file = tmp_path / "ledger.parquet"
    done = allot("ledger", "--kind", "offer", "--parquet", str(file))
    assert (done.exit_code, done.stderr) == (0, f"Wrote {file}.\n")
    table = arro3.io.read_parquet(file).read_all()
    assert table.column("kind").to_pylist() == ["offer"]
    assert table.column("price").to_pylist() == [1.5]
    for command in (["usage", "--by", "tenant,day"], ["hist", "--since", "7d"], ["market", "transfers"]):
        file = tmp_path / f"{command[0]}.parquet"
        assert allot(*command, "--parquet", str(file)).exit_code == 0, command
        names = [field.name for field in arro3.io.read_parquet(file).read_all().schema]
        (heading, *_) = allot(*command, "--csv").stdout.splitlines()
        if command[0] != "hist":  # Its CSV has the columns of the table.
            assert heading.split(",") == names
    assert not list(tmp_path.glob("*.part"))


@pytest.mark.parametrize(
    ("command", "says"),
    [
        (["ledger", "--csv"], "Give one of --csv and --parquet."),
        (["ledger", "--follow"], "--follow prints a table."),
        (["market", "transfers", "--csv"], "Give one of --csv and --parquet."),
        (["usage", "--csv"], "Give one of --csv, --parquet, --json and -o."),
        (["hist", "--json"], "Give one of --csv, --parquet, --json and -o."),
        (["hist", "--rows", "3"], "--parquet has all columns of all jobs"),
        (["hist", "--format", "id"], "--parquet has all columns of all jobs"),
    ],
)
def test_a_parquet_file_is_asked_for_with_nothing_else(
    allot: Allot, tmp_path: Path, command: list[str], says: str
) -> None:
    done = allot(*command, "--parquet", str(tmp_path / "file"))
    assert done.exit_code == 2
    assert says in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_can_not_be_written_is_named(allot: Allot, tmp_path: Path) -> None:
    done = allot("usage", "--parquet", str(tmp_path / "nowhere" / "usage.parquet"))
    assert done.exit_code == 2
    assert "Cannot write" in done.stderr


def test_lines_that_came_meanwhile_are_the_newer_ones_in_order() -> None:
    lines: Any = [{"id": number} for number in (9, 8, 5, 3)]
    assert [line["id"] for line in new_lines(iter(lines), 5)] == [8, 9]


def test_who_has_what_and_who_would_be_better_off_alone(allot: Allot) -> None:
    done = allot("fairness", "shared")
    heading, mine, others = done.stdout.splitlines()
    assert heading.split()[:3] == ["TENANT", "WEIGHT", "WANTS"]
    assert mine.split()[:7] == ["vision", "1", "2", "2", "V100", "2", "V100"]
    assert others.split()[0] == "others"
    assert "policy gandiva_fair" in done.stderr
    assert "1 tenant would be better off alone" in done.stderr
    heading, violation = allot("fairness", "violations", "--vc", "shared", "--open").stdout.splitlines()
    assert violation.split()[1:3] == ["shared", "vision"]
    assert "50%" in violation
    assert "goes on" in violation
    assert len(allot("fairness", "violations", "--tenant", "speech").stdout.splitlines()) == 1
    assert allot("fairness", "nowhere").exit_code == 3


def test_answers_are_what_their_types_say(token: str, live_server: Any) -> None:
    with Client(str(live_server.url), token=token) as client:
        lines = list(client.ledger())
        for line in lines:
            msgspec.convert(line, schema.Line, strict=True)
        again = client.replay_line(next(line["id"] for line in lines if line["round_number"]))
        msgspec.convert(again, schema.Replay, strict=True)
        msgspec.convert(client.fairness("shared"), schema.Fairness, strict=True)
        for violation in client.violations():
            msgspec.convert(violation, schema.Violation, strict=True)
