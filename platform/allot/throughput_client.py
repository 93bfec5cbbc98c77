"""The part of the client for throughputs of job classes: `client.throughputs.list()`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from allot.schema import JobScaling, JobThroughputs, ThroughputImport, ThroughputRow


@dataclass(frozen=True, slots=True, kw_only=True)
class Throughputs:
    """What is known of how fast jobs are on each GPU model, said to the server in the client's ways."""

    read: Callable[..., Any]
    write: Callable[..., Any]
    pages: Callable[..., Iterator[dict[str, Any]]]
    send: Callable[..., Any]

    def list(
        self, *, limit: int | None = None, **filters: str | int | bool | None
    ) -> Iterator[ThroughputRow]:
        """What is known of throughputs. Filters are those of GET /throughputs."""
        return cast("Iterator[ThroughputRow]", self.pages("/throughputs", filters, limit))

    def of_job(self, job_id: int) -> JobThroughputs:
        """How fast a job is on each GPU model, what its policy aims at, and what it received."""
        return cast("JobThroughputs", self.read(f"/jobs/{job_id}/throughputs"))

    def scaling_of_job(self, job_id: int) -> JobScaling:
        """Which GPUs a job had, its batch now, and how fast it would be on more or fewer GPUs."""
        return cast("JobScaling", self.read(f"/jobs/{job_id}/scaling"))

    def correct(self, setting: Mapping[str, Any], value: float, *, reason: str = "") -> ThroughputRow:
        """Say what a throughput is. `setting`: tenant, application, gpu_model, gpus, spread, partner."""
        body = {**setting, "value": value, "reason": reason}
        return cast("ThroughputRow", self.send("PUT", "/throughputs/correction", body=body))

    def remove_correction(self, setting: Mapping[str, Any]) -> None:
        self.send("DELETE", "/throughputs/correction", parameters=setting)

    def export_table(self, tenant: str, layout: str = "csv") -> Any:
        """What is known of a tenant's job classes: the text of a CSV file, or Gavel's JSON."""
        return self.read("/throughputs/export", {"tenant": tenant, "layout": layout})

    def import_table(
        self, tenant: str, content: str, *, dry_run: bool = False, reason: str = ""
    ) -> ThroughputImport:
        """Take the text of a file over, whole or not at all; Refused names every wrong line."""
        body = {"tenant": tenant, "content": content, "dry_run": dry_run, "reason": reason}
        return cast("ThroughputImport", self.write("/throughputs/import", body))
