"""Exports as CSV and as Parquet: the same rows to the same readers, in Parquet with types."""

import csv
import io
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import arro3.io
import pytest
from arro3.core import DataType
from django.http import HttpResponse

from scheduler.core.model.plan import LedgerLine as Line
from scheduler.virtual_clusters.ledger.services import ledger_write
from scheduler.wiring import exports
from tests.api.caller import Caller, caller, is_error
from tests.scheduler.budgets.test_usage import a_busy_day
from tests.scheduler.builders import make_account, make_job, make_member, make_tenant, make_vc
from tests.scheduler.conftest import World

pytestmark = pytest.mark.django_db

PARQUET = "application/vnd.apache.parquet"
NOON = datetime(2026, 3, 14, 12, tzinfo=UTC)
USAGE = "/usage/export?by=tenant,gpu_model,day&since=2026-03-13T12:00:00Z&until=2026-03-15T12:00:00Z"
EXPORTS = (USAGE, "/jobs/export", "/ledger/export", "/market/transfers/export")


@dataclass(frozen=True)
class Read:
    """A Parquet file that was read back."""

    types: Mapping[str, str]
    rows: list[dict[str, Any]]
    metadata: Mapping[bytes, bytes]


def read(answer: HttpResponse) -> Read:
    assert answer["Content-Type"] == PARQUET
    assert answer["Content-Disposition"].endswith('.parquet"')
    table = arro3.io.read_parquet(io.BytesIO(answer.content)).read_all()
    names = [field.name for field in table.schema]
    columns = [table.column(name).to_pylist() for name in names]
    return Read(
        types={field.name: _name_of(field.type) for field in table.schema},
        rows=[dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)],
        metadata=table.schema.metadata,
    )


def _name_of(kind: DataType) -> str:
    names = {
        "integer": DataType.int64(),
        "decimal": DataType.decimal128(38, 6),
        "number": DataType.float64(),
        "instant": DataType.timestamp("us", tz="UTC"),
        "day": DataType.date32(),
        "text": DataType.string(),
    }
    return next(name for name, each in names.items() if each == kind)


def as_csv(answer: HttpResponse) -> list[dict[str, str]]:
    assert answer["Content-Type"] == "text/csv; charset=utf-8"
    return list(csv.DictReader(io.StringIO(answer.content.decode())))


def is_same(typed: Any, text: str) -> bool:
    """Whether a value of a Parquet file is what a cell of CSV says."""
    match typed:
        case None:
            return text == ""
        case datetime():
            return typed == datetime.fromisoformat(text)
        case date():
            return typed.isoformat() == text
        case Decimal():
            return typed == Decimal(text)
        case int() | float():
            return typed == type(typed)(text)
        case str():
            # Text that a spreadsheet would take for a formula has an apostrophe, in CSV only.
            return text in (typed, f"'{typed}")
        case _:
            return False


def a_history(world: World) -> None:
    """Jobs that ran and that wait, lines of a ledger, credits, of two tenants."""
    a_busy_day()
    job = make_job(
        tenant=world.tenant, virtual_cluster=world.virtual_cluster, name="=cmd()", gpus=2,
        labels={"sweep": "3", "where": "Zürich, 'Ost'"}, gpu_models=["V100"],
    )  # fmt: skip
    job.started_at, job.ended_at = NOON, NOON + timedelta(microseconds=1)
    job.service, job.exit_code, job.message = {"V100": 12.3456}, -9, 'ended, "killed"\non a node'
    job.state = "failed"
    job.save()
    make_job(tenant=world.tenant, virtual_cluster=world.virtual_cluster, submitted_at=NOON)
    line = Line(
        kind="trade", party="vision", jobs=(job.id,), price=0.1, message="=2 GPUs", details={"a": 1.5}
    )
    ledger_write(line, view="research", person="user mia", at=NOON)
    ledger_write(Line(kind="trade", party="speech"), view="private", person="", at=NOON)
    speech = make_vc("speech", members=[make_tenant("speech")])
    for virtual_cluster in (world.virtual_cluster, speech):
        make_account(virtual_cluster, 10)


def readers(world: World) -> tuple[Caller, ...]:
    admin = caller(make_member(world.tenant, "ada", role="admin"))
    return world.operator, admin, world.member, world.stranger


@pytest.mark.parametrize("address", EXPORTS, ids=lambda each: each.partition("/export")[0])
def test_parquet_has_the_rows_of_csv_for_each_reader(world: World, address: str) -> None:
    a_history(world)
    seen = []
    for reader in readers(world):
        lines = as_csv(reader.get(address))
        file = read(reader.get(address + ("&" if "?" in address else "?") + "format=parquet"))
        assert len(file.rows) == len(lines)
        for row, line in zip(file.rows, lines, strict=True):
            assert list(row) == list(line)
            assert [name for name in row if not is_same(row[name], line[name])] == []
        seen.append(len(lines))
    assert seen[0] > seen[-1], "the operator reads more than a stranger does"


def test_columns_have_types(world: World) -> None:
    a_history(world)
    jobs = read(world.operator.get("/jobs/export?format=parquet&q=cmd"))
    (row,) = jobs.rows
    assert (jobs.types["id"], jobs.types["started_at"], jobs.types["labels"]) == (
        "integer",
        "instant",
        "text",
    )
    assert row["name"] == "=cmd()"
    assert row["ended_at"] - row["started_at"] == timedelta(microseconds=1)
    assert row["started_at"].utcoffset() == timedelta(0)
    assert row["service_gpu_seconds"] == Decimal("12.346")
    assert (row["exit_code"], row["message"]) == (-9, 'ended, "killed"\non a node')
    assert json.loads(row["labels"]) == {"sweep": "3", "where": "Zürich, 'Ost'"}
    usage = read(world.operator.get(f"{USAGE}&format=parquet"))
    assert (usage.types["jobs"], usage.types["cost"], usage.types["day"]) == ("integer", "decimal", "day")
    ledger = read(world.operator.get("/ledger/export?format=parquet"))
    assert (ledger.types["at"], ledger.types["price"], ledger.types["jobs"]) == ("instant", "number", "text")
    transfers = read(world.operator.get("/market/transfers/export?format=parquet"))
    assert (transfers.types["credits"], transfers.types["to"]) == ("decimal", "text")


def test_no_rows_are_a_file_with_columns(world: World) -> None:
    file = read(world.stranger.get("/jobs/export?format=parquet"))
    assert file.rows == []
    assert file.types["submitted_at"] == "instant"


def test_of_too_many_rows_the_newest_are_there_page_by_page(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers = [make_job(tenant=world.tenant, virtual_cluster=world.virtual_cluster).id for _ in range(7)]
    monkeypatch.setattr(exports, "_AT_ONCE", 2)
    monkeypatch.setattr(exports, "_ROW_GROUP", 3)
    assert [row["id"] for row in read(world.member.get("/jobs/export?format=parquet")).rows] == numbers
    monkeypatch.setattr(exports, "MOST_EXPORTED", 5)
    file = read(world.member.get("/jobs/export?format=parquet"))
    assert [row["id"] for row in file.rows] == numbers[2:]
    assert file.metadata[b"note"] == b"Older lines were left out: these are the newest 5."


def test_no_more_than_a_page_is_read_ahead() -> None:
    taken: list[int] = []

    class Disk(io.BytesIO):
        """Notes how many pages were read when something was written."""

        def write(self, piece: Any) -> int:
            written.append(len(taken))
            return super().write(piece)

    def pages() -> Any:
        for number in range(20):
            taken.append(number)
            yield [{"n": number * exports._ROW_GROUP + each} for each in range(exports._ROW_GROUP)]

    written: list[int] = []
    exports.write_parquet(Disk(), {"n": exports.Kind.INTEGER}, pages())
    assert min(written) < 4
    assert len(set(written)) > 5


@pytest.mark.parametrize("address", EXPORTS, ids=lambda each: each.partition("/export")[0])
def test_the_format_is_asked_for_by_parameter_or_header(world: World, address: str) -> None:
    by = world.operator
    assert by.get(address, headers={"Accept": PARQUET})["Content-Type"] == PARQUET
    for accepted in ("text/csv", "*/*", "application/json"):
        assert by.get(address, headers={"Accept": accepted})["Content-Type"].startswith("text/csv")
    join = "&" if "?" in address else "?"
    chosen = by.get(f"{address}{join}format=csv", headers={"Accept": PARQUET})
    assert chosen["Content-Type"].startswith("text/csv")
    wrong = is_error(by.get(f"{address}{join}format=xlsx"), 400, "invalid")
    assert [field["field"] for field in wrong["fields"]] == ["format"]
    is_error(by.get(f"{address}{join}formats=csv"), 400, "invalid")
    is_error(Caller().get(f"{address}{join}format=parquet"), 401, "not_signed_in")


def test_what_goes_wrong_on_the_way_is_an_error_and_no_half_file() -> None:
    def pages() -> Any:
        yield [{"n": 1}]
        raise RuntimeError("The database went away.")

    with pytest.raises(Exception, match="The database went away"):
        exports.file_of(exports.FileFormat.PARQUET, "n", {"n": exports.Kind.INTEGER}, pages())
