"""How fast jobs are, by the earlier name of that: deprecated, see `Client.throughputs`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, cast

from allot.transport import Transport

if TYPE_CHECKING:
    from allot import schema


class EarlierNames:
    """The part of the client that is there for scripts of earlier versions."""

    _read: Callable[..., Any]
    _write: Callable[..., Any]
    _pages: Callable[..., Any]
    _transport: Transport

    def speeds(
        self, *, limit: int | None = None, **filters: str | int | bool | None
    ) -> Iterator[schema.SpeedRow]:
        """See `throughputs.list`."""
        return cast("Iterator[schema.SpeedRow]", self._pages("/speeds", filters, limit))

    def job_speeds(self, job_id: int) -> schema.JobSpeeds:
        """See `throughputs.of_job`."""
        return cast("schema.JobSpeeds", self._read(f"/jobs/{job_id}/speeds"))

    def correct_speed(self, setting: Mapping[str, Any], value: float, *, reason: str = "") -> schema.SpeedRow:
        """See `throughputs.correct`."""
        body = {**setting, "value": value, "reason": reason}
        return cast("schema.SpeedRow", self._transport.request("PUT", "/speeds/correction", body=body))

    def uncorrect_speed(self, setting: Mapping[str, Any]) -> None:
        """See `throughputs.remove_correction`."""
        self._transport.request("DELETE", "/speeds/correction", parameters=setting)

    def export_speeds(self, tenant: str, layout: str = "csv") -> Any:
        """See `throughputs.export_table`."""
        return self._read("/speeds/export", {"tenant": tenant, "layout": layout})

    def import_speeds(
        self, tenant: str, content: str, *, dry_run: bool = False, reason: str = ""
    ) -> schema.ThroughputImport:
        """See `throughputs.import_table`."""
        body = {"tenant": tenant, "content": content, "dry_run": dry_run, "reason": reason}
        return cast("schema.ThroughputImport", self._write("/speeds/import", body))
