"""`allot audit`: what is asked for, and that following goes on behind the last entry."""

import json
from datetime import datetime, timedelta
from typing import Any

from allot.commands.audit import _past
from allot.resources import Audit


class Server:
    """An audit log of some entries, as `GET /audit/export` answers."""

    def __init__(self, *numbers: int) -> None:
        self.numbers = numbers
        self.asked: list[tuple[str, dict[str, Any]]] = []

    def read(self, path: str, parameters: dict[str, Any]) -> str | None:
        self.asked.append((path, parameters))
        lines = [json.dumps({"id": number}) for number in self.numbers if number > parameters["after"]]
        return "".join(f"{line}\n" for line in lines) or None


def test_what_follows_an_entry_is_read_in_order_and_nothing_is_no_error() -> None:
    server = Server(3, 5, 8)
    audit = Audit(read=server.read, pages=lambda *_: iter(()))
    assert [entry["id"] for entry in audit.after({"who": "vera"}, 3)] == [5, 8]
    assert list(audit.after({"who": "vera"}, 8)) == []
    assert server.asked[0] == ("/audit/export", {"who": "vera", "after": 3})


def test_a_time_is_so_long_ago_or_an_instant() -> None:
    moment = _past("2h")
    ago = datetime.now().astimezone() - moment
    assert timedelta(hours=2) <= ago < timedelta(hours=2, minutes=1)
    assert _past("2026-01-02T03:04:05+00:00").isoformat().startswith("2026-01-02")
