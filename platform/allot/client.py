"""A typed client of the REST API, for scripts and for the `allot` command.

with Client("http://localhost:8000", token="alt_...") as client:
    for job in client.jobs(state="queued"):
        print(job["name"], job["reasons"][0]["message"])
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import islice
from types import TracebackType
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import parse_qsl, quote, urlsplit

from allot.administration import Administration
from allot.archives import Archives, Artefacts
from allot.credentials import find_account
from allot.exports import Exports
from allot.feed import Events
from allot.resources import Audit, Logs, Market, Notices, Secrets, Serving, Templates, Throughputs, Tokens
from allot.transport import Transport, page_of, with_tenant

if TYPE_CHECKING:
    from allot import schema

#: A job specification as it was written: the server checks it, and names what is wrong.
JobSpec = dict[str, Any]

LARGEST_PAGE = 200
#: How long a write goes on trying: long enough for a restart of the server.
WRITE_RETRY_SECONDS = 20.0


class Client:
    """One signed-in user of one server. Not for use by several threads at once.

    `insecure`: whether plain http may go to another machine. `read_retry_seconds`: for how long reads are
    repeated while the server cannot be reached. `on_retry`: gets the problem before each repetition.
    """

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        insecure: bool = False,
        read_retry_seconds: float = 0.0,
        write_retry_seconds: float = WRITE_RETRY_SECONDS,
        sleep: Callable[[float], None] = time.sleep,
        on_retry: Callable[[str], None] = lambda problem: None,
    ) -> None:
        self.url = url
        self.read_retry_seconds = read_retry_seconds
        self.write_retry_seconds = write_retry_seconds
        self.sleep = sleep
        self._transport = Transport(url, token=token, insecure=insecure, sleep=sleep, on_retry=on_retry)

    @classmethod
    def from_environment(
        cls, *, read_retry_seconds: float = 0.0, on_retry: Callable[[str], None] = lambda problem: None
    ) -> Client:
        """The server and token of ALLOT_URL and ALLOT_TOKEN, or of the last `allot login`."""
        account = find_account()
        return cls(
            account.url,
            token=account.token,
            insecure=account.insecure,
            read_retry_seconds=read_retry_seconds,
            on_retry=on_retry,
        )

    def close(self) -> None:
        self._transport.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # Who one is

    def me(self) -> schema.Me:
        return cast("schema.Me", self._read("/session"))

    def change_password(self, current: str, new: str, *, end_tokens: bool = True) -> None:
        """Change one's own password; all tokens end with it, this one too, unless they are kept."""
        body = {"current": current, "new": new, "end_tokens": end_tokens}
        self._transport.request("POST", "/session/password", body=body)

    # Submitting

    def submit(
        self, spec: JobSpec, *, tenant: str | None = None, idempotency_key: str | None = None
    ) -> schema.Job:
        """Submit one job. `tenant` is needed only by members of several.

        Safe to repeat with the same `idempotency_key`: the job is created once.
        """
        return cast("schema.Job", self._write("/jobs", with_tenant(spec, tenant), idempotency_key))

    def submit_many(
        self, specs: Sequence[JobSpec], *, tenant: str | None = None, idempotency_key: str | None = None
    ) -> list[schema.ShortJob]:
        """Submit up to 1,000 jobs, all or none. Field errors are prefixed with `jobs.<index>.`."""
        body = with_tenant({"jobs": list(specs)}, tenant)
        answer = self._write("/jobs/bulk", body, idempotency_key)
        return cast("list[schema.ShortJob]", answer["jobs"])

    def check(self, spec: JobSpec, *, tenant: str | None = None) -> schema.CheckAnswer:
        """What submitting would do; creates nothing."""
        answer = self._transport.request(
            "POST", "/jobs/check", body=with_tenant(spec, tenant), retry_for_seconds=self.read_retry_seconds
        )
        return cast("schema.CheckAnswer", answer)

    # Jobs

    def jobs(self, *, limit: int | None = None, **filters: str | int | None) -> Iterator[schema.Job]:
        """Jobs, newest first. Filters are those of GET /jobs."""
        return cast("Iterator[schema.Job]", self._pages("/jobs", filters, limit))

    def job_counts(self, **filters: str | int | None) -> schema.JobCounts:
        """How many jobs are in each state. Filters are those of GET /jobs."""
        return cast("schema.JobCounts", self._read("/jobs/counts", filters))

    def job(self, job_id: int) -> schema.Job:
        return cast("schema.Job", self._read(f"/jobs/{job_id}"))

    def progress(self, job_id: int) -> list[schema.ProgressPoint]:
        return cast("schema.Progress", self._read(f"/jobs/{job_id}/progress"))["points"]

    def attempts(self, job_id: int) -> list[schema.Attempt]:
        return cast("list[schema.Attempt]", list(self._pages(f"/jobs/{job_id}/attempts", {}, None)))

    def dependencies(self, job_id: int) -> schema.JobDependencies:
        """Which other jobs it waits for, and which wait for it."""
        return cast("schema.JobDependencies", self._read(f"/jobs/{job_id}/dependencies"))

    def input_workers(self, job_id: int) -> schema.JobInputWorkers:
        return cast("schema.JobInputWorkers", self._read(f"/jobs/{job_id}/input-workers"))

    def why(self, job_id: int) -> schema.Why:
        return cast("schema.Why", self._read(f"/jobs/{job_id}/why"))

    def what_if(
        self, question: Mapping[str, Any], *, patience_seconds: float = 90.0, pause_seconds: float = 0.3
    ) -> schema.WhatIf:
        """Ask a what-if question (the body of POST /what-if) and return it answered, or as it is when the
        patience is over."""
        asked = self._write("/what-if", dict(question))
        path = f"/what-if/{asked['id']}"
        return cast("schema.WhatIf", self._when_done(asked, path, patience_seconds, pause_seconds))

    def change(self, job_id: int, changes: Mapping[str, Any]) -> schema.Job:
        """Give it other values of some fields of its specification; what is not named stays as it is."""
        return cast("schema.Job", self._transport.request("PATCH", f"/jobs/{job_id}", body=dict(changes)))

    def cancel(self, job_id: int) -> schema.Job:
        return cast("schema.Job", self._write(f"/jobs/{job_id}/cancel"))

    def act_on_many(
        self, action: schema.JobsActionKind, chosen: Mapping[str, str], **more: Any
    ) -> schema.JobsActionAnswer:
        """Do one thing to all jobs under filters of GET /jobs; `more` are fields of POST /jobs/actions.

        One request changes only some jobs: `remaining` says how many are left.
        """
        body = {"action": action, "filter": dict(chosen), **more}
        return cast("schema.JobsActionAnswer", self._write("/jobs/actions", body))

    def hold(self, job_id: int) -> schema.Job:
        return cast("schema.Job", self._write(f"/jobs/{job_id}/hold"))

    def release(self, job_id: int) -> schema.Job:
        return cast("schema.Job", self._write(f"/jobs/{job_id}/release"))

    def requeue(self, job_id: int) -> schema.Job:
        """Let a running job stop and wait again, from its checkpoint on."""
        return cast("schema.Job", self._write(f"/jobs/{job_id}/requeue"))

    def page_address(self, job_id: int, port: str) -> str:
        """Where a browser sees the pages at a port that the job names; works once, within a minute."""
        # Not repeated as a write is: each answer is another ticket.
        answer = self._transport.request("POST", f"/jobs/{job_id}/ports/{quote(port, safe='')}/open")
        return str(answer["url"])

    # Use

    def job_metrics(self, job_id: int, **parameters: str | int | None) -> schema.JobMetricsAnswer:
        """What a job used over time. Parameters are those of GET /jobs/ID/metrics."""
        return cast("schema.JobMetricsAnswer", self._read(f"/jobs/{job_id}/metrics", parameters))

    def node_metrics(self, name: str, **parameters: str | int | None) -> schema.NodeMetricsAnswer:
        """What a node used over time. Parameters: since, until, resolution, by."""
        path = f"/nodes/{quote(name, safe='')}/metrics"
        return cast("schema.NodeMetricsAnswer", self._read(path, parameters))

    def jobs_usage(self, *, limit: int | None = None, tenant: str | None = None) -> Iterator[schema.JobUsage]:
        """What running jobs use now, the newest first."""
        return cast("Iterator[schema.JobUsage]", self._pages("/jobs/usage", {"tenant": tenant}, limit))

    # The cluster

    def fragmentation(self, minutes: int = 60) -> schema.Fragmentation:
        """How many idle GPUs the usual jobs cannot use, and why. For operators."""
        return cast("schema.Fragmentation", self._read("/cluster/fragmentation", {"minutes": minutes}))

    def shared_gpus(self) -> Iterator[schema.SharedGpu]:
        """The GPUs of which jobs have parts, or that several have together, and what each job has."""
        return cast("Iterator[schema.SharedGpu]", self._pages("/shared-gpus", {}, None))

    def job_run_time(self, job_id: int) -> schema.JobRunTime:
        """How long it runs in all, as declared and as its own steps show."""
        return cast("schema.JobRunTime", self._read(f"/jobs/{job_id}/run-time"))

    def job_preemptions(self, job_id: int) -> schema.JobPreemptions:
        """How often a job was preempted, and what that cost."""
        return cast("schema.JobPreemptions", self._read(f"/jobs/{job_id}/preemptions"))

    def nodes(self) -> list[schema.Node]:
        return cast("list[schema.Node]", list(self._pages("/nodes", {}, None)))

    def node(self, name: str) -> schema.Node:
        return cast("schema.Node", self._read(f"/nodes/{quote(name, safe='')}"))

    def drain_node(self, name: str, *, until: datetime | None = None, why: str = "") -> schema.Node:
        """Move the node's jobs away, at once or at an instant until which they go on."""
        body = {"why": why} if until is None else {"why": why, "until": until.isoformat()}
        return cast("schema.Node", self._write(f"/nodes/{quote(name, safe='')}/drain", body))

    def cordon_node(self, name: str, *, why: str = "") -> schema.Node:
        """Let nothing new start on the node."""
        return self._set_cordoned(name, True, why)

    def resume_node(self, name: str, *, why: str = "") -> schema.Node:
        """Return the node to service."""
        return self._set_cordoned(name, False, why)

    def _set_cordoned(self, name: str, cordoned: bool, why: str) -> schema.Node:
        body = {"cordoned": cordoned, "why": why}
        path = f"/nodes/{quote(name, safe='')}"
        return cast("schema.Node", self._transport.request("PATCH", path, body=body))

    def virtual_clusters(self) -> list[schema.VirtualCluster]:
        return cast("list[schema.VirtualCluster]", list(self._pages("/virtual-clusters", {}, None)))

    def virtual_cluster(self, name: str) -> schema.VirtualCluster:
        return cast("schema.VirtualCluster", self._read(f"/virtual-clusters/{quote(name, safe='')}"))

    def set_virtual_cluster(self, name: str, changes: Mapping[str, Any]) -> schema.VirtualCluster:
        """Change what is named (the body of PUT /virtual-clusters/NAME); the rest stays as it is."""
        path = f"/virtual-clusters/{quote(name, safe='')}"
        return cast("schema.VirtualCluster", self._transport.request("PUT", path, body=dict(changes)))

    def plugins(self) -> schema.Plugins:
        """The policies and placers that there are, with their parameters."""
        return cast("schema.Plugins", self._read("/policies"))

    def gpu_models(self) -> list[schema.GpuModel]:
        return cast("list[schema.GpuModel]", list(self._pages("/gpu-models", {}, None)))

    def cluster_settings(self) -> schema.ClusterSettings:
        """How the spare GPUs are handed out."""
        return cast("schema.ClusterSettings", self._read("/cluster/settings"))

    def set_cluster_settings(self, changes: Mapping[str, Any]) -> schema.ClusterSettings:
        """Change how the spare GPUs are handed out; what is not named stays as it is."""
        answer = self._transport.request("PATCH", "/cluster/settings", body=dict(changes))
        return cast("schema.ClusterSettings", answer)

    # Failures

    def failure_rules(self) -> list[schema.FailureRule]:
        """The site's rules for failures, in the order in which they are tried."""
        return cast("list[schema.FailureRule]", self._read("/failure-rules")["rules"])

    def set_failure_rules(self, rules: object) -> list[schema.FailureRule]:
        """Replace all rules. For operators."""
        answer = self._transport.request("PUT", "/failure-rules", body={"rules": rules})
        return cast("list[schema.FailureRule]", answer["rules"])

    def try_failure_rules(self, rules: object, log: str, exit_code: int) -> schema.FailureRuleMatch:
        """Which of these rules an attempt with this last output would match. For operators."""
        asked = {"rules": rules, "log": log, "exit_code": exit_code}
        return cast("schema.FailureRuleMatch", self._write("/failure-rules/test", asked))

    # Cells

    def cells(self) -> schema.Cells:
        """How the cluster is divided by cells."""
        return cast("schema.Cells", self._read("/cells"))

    def cell_tree(self, *, at: str | None = None, chain: str | None = None) -> Iterator[schema.CellNode]:
        """The cells inside the one at an address, or the topmost ones."""
        return cast("Iterator[schema.CellNode]", self._pages("/cells/tree", {"at": at, "chain": chain}, None))

    def cells_of(self, virtual_cluster: str) -> schema.VirtualClusterHoldings:
        path = f"/virtual-clusters/{quote(virtual_cluster, safe='')}/cells"
        return cast("schema.VirtualClusterHoldings", self._read(path))

    def check_cells(self, specification: Mapping[str, Any]) -> schema.CellsCheck:
        """What is wrong with a specification, and what it would change; changes nothing."""
        return cast("schema.CellsCheck", self._write("/cells/check", {"specification": specification}))

    def propose_cells(self) -> schema.CellDocument:
        """Today's hardware and guarantees as a specification."""
        return cast("schema.CellDocument", self._write("/cells/proposal")["specification"])

    def set_cells(self, specification: Mapping[str, Any], *, version: int) -> schema.Cells:
        """Put a specification in force in place of `version`; Refused when that is not in force any more."""
        body = {"specification": specification, "version": version}
        # Not repeated: a second try after a lost answer would find the version changed, by itself.
        return cast("schema.Cells", self._transport.request("PUT", "/cells", body=body))

    # Private clusters and advice

    def anomalies(self, virtual_cluster: str) -> schema.Anomalies:
        """The newest comparison with the private cluster."""
        return cast("schema.Anomalies", self._read(self._anomalies(virtual_cluster)))

    def compare(
        self,
        virtual_cluster: str,
        *,
        hours: float | None = None,
        patience_seconds: float,
        pause_seconds: float = 0.5,
    ) -> schema.Anomalies:
        """Have it compared again, and wait up to `patience_seconds` for that."""
        path = self._anomalies(virtual_cluster)
        found = self._write(path, {} if hours is None else {"hours": hours})
        return cast("schema.Anomalies", self._when_done(found, path, patience_seconds, pause_seconds))

    def advise(
        self, question: Mapping[str, Any], *, patience_seconds: float, pause_seconds: float = 0.5
    ) -> schema.WholeAdvice:
        """Ask which cells each virtual cluster should get, and wait up to `patience_seconds`."""
        found = self._write("/cells/advice", dict(question))
        path = f"/cells/advice/{found['id']}"
        return cast("schema.WholeAdvice", self._when_done(found, path, patience_seconds, pause_seconds))

    def apply_advice(self, advice_id: str) -> schema.Cells:
        """Put advised cells in force; Refused when the cells have changed since."""
        return cast("schema.Cells", self._write(f"/cells/advice/{quote(advice_id, safe='')}/apply"))

    # Prices

    def set_price(self, gpu_model: str, price_per_hour: float) -> schema.GpuModel:
        """Set what a GPU of a model costs for an hour."""
        path = f"/gpu-models/{quote(gpu_model, safe='')}"
        body = {"price_per_hour": price_per_hour}
        return cast("schema.GpuModel", self._transport.request("PATCH", path, body=body))

    # Use of GPUs

    def usage(self, **question: str | None) -> schema.UsageReport:
        """GPU-hours and their cost. The question is that of GET /usage: by, since, until, tenant, user,
        virtual_cluster, gpu_model."""
        return cast("schema.UsageReport", self._read("/usage", question))

    # The ledger and fairness

    def ledger(self, *, limit: int | None = None, **filters: str | int | None) -> Iterator[schema.Line]:
        """The ledger, the newest line first. Filters are those of GET /ledger."""
        return cast("Iterator[schema.Line]", self._pages("/ledger", filters, limit))

    def replay_line(self, line_id: int) -> schema.Replay:
        """Decide a line's round again, and compare."""
        return cast("schema.Replay", self._read(f"/ledger/{line_id}/replay"))

    def fairness(self, virtual_cluster: str) -> schema.Fairness:
        """How a virtual cluster is divided among its tenants."""
        path = f"/virtual-clusters/{quote(virtual_cluster, safe='')}/fairness"
        return cast("schema.Fairness", self._read(path))

    def violations(self, *, limit: int | None = None, **filters: str | None) -> Iterator[schema.Violation]:
        """Tenants that would be better off alone, the newest first. Filters: virtual_cluster,
        tenant, open.
        """
        return cast("Iterator[schema.Violation]", self._pages("/fairness/violations", filters, limit))

    # Areas with a part of their own

    @property
    def administration(self) -> Administration:
        return Administration(
            read=self._read, write=self._write, pages=self._pages, send=self._transport.request
        )

    @property
    def archives(self) -> Archives:
        return Archives(read=self._read, upload=self._transport.upload)

    @property
    def artefacts(self) -> Artefacts:
        return Artefacts(pages=self._pages, save=self._transport.download)

    @property
    def audit(self) -> Audit:
        return Audit(read=self._read, pages=self._pages)

    @property
    def events(self) -> Events:
        return Events(pages=self._pages, transport=self._transport)

    @property
    def exports(self) -> Exports:
        return Exports(read=self._read, save=self._transport.download)

    @property
    def logs(self) -> Logs:
        return Logs(read=self._read, save=self._transport.download)

    @property
    def secrets(self) -> Secrets:
        return Secrets(pages=self._pages, send=self._transport.request)

    @property
    def templates(self) -> Templates:
        return Templates(read=self._read, pages=self._pages, send=self._transport.request)

    @property
    def serving(self) -> Serving:
        return Serving(write=self._write, pages=self._pages, send=self._transport.request)

    @property
    def market(self) -> Market:
        return Market(read=self._read, write=self._write, pages=self._pages, send=self._transport.request)

    @property
    def notices(self) -> Notices:
        return Notices(read=self._read, write=self._write, pages=self._pages, send=self._transport.request)

    @property
    def throughputs(self) -> Throughputs:
        return Throughputs(
            read=self._read, write=self._write, pages=self._pages, send=self._transport.request
        )

    @property
    def tokens(self) -> Tokens:
        return Tokens(pages=self._pages, send=self._transport.request)

    def _anomalies(self, virtual_cluster: str) -> str:
        return f"/virtual-clusters/{quote(virtual_cluster, safe='')}/anomalies"

    def _when_done(self, found: Any, path: str, patience_seconds: float, pause_seconds: float) -> Any:
        """Look again until a worker has answered, or return it as it is when the patience is over."""
        waited = 0.0
        while found["state"] in ("waiting", "running") and waited < patience_seconds:
            self.sleep(pause_seconds)
            waited += pause_seconds
            found = self._read(path)
        return found

    # Requests to the server

    def _read(self, path: str, parameters: Mapping[str, object] | None = None) -> Any:
        return self._transport.request(
            "GET", path, parameters=parameters, retry_for_seconds=self.read_retry_seconds
        )

    def _write(self, path: str, body: object = None, idempotency_key: str | None = None) -> Any:
        return self._transport.request(
            "POST",
            path,
            body={} if body is None else body,
            headers={"Idempotency-Key": idempotency_key or str(uuid.uuid4())},
            retry_for_seconds=self.write_retry_seconds,
        )

    def _pages(self, path: str, filters: Mapping[str, object], limit: int | None) -> Iterator[dict[str, Any]]:
        """Every item of a list, page by page as it is consumed; a bare JSON list counts as one page."""
        left = limit
        parameters: dict[str, object] = dict(filters)
        while True:
            parameters["page_size"] = LARGEST_PAGE if left is None else min(left, LARGEST_PAGE)
            answer = self._read(path, parameters)
            items, following = page_of(answer)
            wanted = list(islice(items, left))
            yield from wanted
            left = None if left is None else left - len(wanted)
            if not following or left == 0:
                return
            # Only the query is taken from the link: its host is the one that the server sees, which
            # behind a proxy need not be the one that can be reached from here.
            parameters = dict(parse_qsl(urlsplit(following).query))
