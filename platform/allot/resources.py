"""The areas of the API that have a part of the client of their own, such as `client.market.offers()`.

Each has from the client only what it needs: `read` and `pages` for GET, `write` for a POST that is repeated
safely under one idempotency key, `send` for what is said once, `save` for an answer that becomes a file.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import quote

if TYPE_CHECKING:
    from allot.schema import (
        AddressAnswer,
        AuditEntry,
        BudgetState,
        CreditAccount,
        CreditTransfer,
        Delivery,
        ElasticitySavings,
        JobScaling,
        JobSensitivity,
        JobTemplate,
        JobTemplateRow,
        JobThroughputs,
        Loan,
        LogPage,
        LogSearch,
        MarketRule,
        MergedLogPage,
        NewToken,
        NewWebhook,
        Node,
        NodesAskedBack,
        NotificationSettings,
        Offer,
        Secret,
        ServingPool,
        ThroughputImport,
        ThroughputRow,
        Token,
        UsageSubscription,
        UsageSubscriptionAnswer,
        Webhook,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Logs:
    """What jobs wrote: read, merged, searched, downloaded."""

    read: Callable[..., Any]
    save: Callable[..., Path]

    def page(
        self,
        job_id: int,
        *,
        attempt: int | None = None,
        task: str | None = None,
        rank: int | None = 0,
        after: int = -1,
        limit: int | None = None,
    ) -> LogPage:
        """Chunks of one rank's output with a sequence greater than `after`."""
        parameters = {"attempt": attempt, "task": task, "rank": rank, "after": after, "limit": limit}
        return cast("LogPage", self.read(f"/jobs/{job_id}/logs", parameters))

    def merged(
        self, job_id: int, *, attempt: int | None = None, task: str | None = None, after: str = ""
    ) -> MergedLogPage:
        """What all ranks, or those of a task, wrote after the place `after`, by time."""
        parameters = {"attempt": attempt, "task": task, "after": after or None}
        return cast("MergedLogPage", self.read(f"/jobs/{job_id}/logs/merged", parameters))

    def search(
        self,
        job_id: int,
        wanted: str,
        *,
        regex: bool = False,
        match_case: bool = False,
        attempt: int | None = None,
        task: str | None = None,
        rank: int | None = None,
        context: int = 0,
        limit: int | None = None,
    ) -> Iterator[LogSearch]:
        """Answers with the lines that contain a text or match an expression, until all was searched."""
        parameters = {
            "q": wanted,
            "regex": regex,
            "match_case": match_case,
            "attempt": attempt,
            "task": task,
            "rank": rank,
            "context": context,
            "limit": limit,
        }
        after: str | None = None
        while after != "":
            path = f"/jobs/{job_id}/logs/search"
            found = cast("LogSearch", self.read(path, {**parameters, "after": after}))
            yield found
            after = found["next_after"]

    def download(
        self,
        job_id: int,
        target: Path,
        *,
        attempt: int | None = None,
        task: str | None = None,
        rank: int | None = None,
    ) -> Path:
        """Write an attempt's output to a file, or into a folder under the server's name for it: the text of
        one rank, or a zip of several. Returns the file, which is whole or not there at all."""
        parameters = {"attempt": attempt, "task": task, "rank": rank}
        return self.save(f"/jobs/{job_id}/logs/download", parameters, target)


@dataclass(frozen=True, slots=True, kw_only=True)
class Throughputs:
    """What is known of how fast jobs are on each GPU model, as a part of the client."""

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

    def sensitivity_of_job(self, job_id: int) -> JobSensitivity:
        """The speed of a job's replicas by CPUs and memory, and what they have now."""
        return cast("JobSensitivity", self.read(f"/jobs/{job_id}/sensitivity"))

    def elasticity_savings(self) -> Iterator[ElasticitySavings]:
        """The simulations of what elasticity saved, the newest first. For operators."""
        return cast("Iterator[ElasticitySavings]", self.pages("/elasticity-savings", {}, None))

    def simulate_elasticity(self, days: float) -> ElasticitySavings:
        """Have the jobs of the last days simulated elastic and rigid; the list has the answer in a while."""
        return cast("ElasticitySavings", self.write("/elasticity-savings", {"days": days}))

    def correct(self, setting: Mapping[str, Any], value: float, *, reason: str = "") -> ThroughputRow:
        """Set a throughput. `setting`: tenant, application, gpu_model, gpus, spread, partner."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Market:
    """Offers, loans, rules and credits, as a part of the client."""

    read: Callable[..., Any]
    write: Callable[..., Any]
    pages: Callable[..., Iterator[dict[str, Any]]]
    send: Callable[..., Any]

    def offers(self, *, limit: int | None = None, **filters: str | None) -> Iterator[Offer]:
        """Offers, the newest first. Filters are those of GET /market/offers: state, virtual_cluster."""
        return cast("Iterator[Offer]", self.pages("/market/offers", filters, limit))

    def offer(self, wanted: Mapping[str, Any]) -> Offer:
        """Offer what a virtual cluster owns: virtual_cluster, lot, ends_at, starts_at, price_per_gpu_hour,
        in_return."""
        return cast("Offer", self.write("/market/offers", dict(wanted)))

    def withdraw(self, offer: int) -> Offer:
        return cast("Offer", self.write(f"/market/offers/{offer}/withdraw"))

    def take(self, offer: int, virtual_cluster: str) -> Loan:
        """Borrow what is offered, and pay for its whole time."""
        body = {"virtual_cluster": virtual_cluster}
        return cast("Loan", self.write(f"/market/offers/{offer}/take", body))

    def loans(self, *, limit: int | None = None, **filters: str | None) -> Iterator[Loan]:
        """Loans, the newest first. Filters are those of GET /market/loans: state, virtual_cluster."""
        return cast("Iterator[Loan]", self.pages("/market/loans", filters, limit))

    def end(self, loan: int) -> Loan:
        """Give back what is borrowed, or as an operator end the loan of others."""
        return cast("Loan", self.write(f"/market/loans/{loan}/end"))

    def rules(self, virtual_cluster: str | None = None) -> Iterator[MarketRule]:
        filters = {"virtual_cluster": virtual_cluster}
        return cast("Iterator[MarketRule]", self.pages("/market/rules", filters, None))

    def add_rule(self, wanted: Mapping[str, Any]) -> MarketRule:
        """Let a virtual cluster lend or borrow automatically; the fields of POST /market/rules."""
        return cast("MarketRule", self.write("/market/rules", dict(wanted)))

    def remove_rule(self, rule: int) -> None:
        self.send("DELETE", f"/market/rules/{rule}")

    def accounts(self) -> Iterator[CreditAccount]:
        return cast("Iterator[CreditAccount]", self.pages("/market/accounts", {}, None))

    def grant(self, virtual_cluster: str, credits: float, *, reason: str = "") -> CreditAccount:
        """Grant credits; less than 0 takes some back."""
        body = {"credits": credits, "reason": reason}
        return cast("CreditAccount", self.write(f"{_account(virtual_cluster)}/grant", body))

    def set_allowance(self, virtual_cluster: str, credits: float, *, every_seconds: int) -> CreditAccount:
        body = {"credits": credits, "every_seconds": every_seconds}
        return cast("CreditAccount", self.send("PUT", f"{_account(virtual_cluster)}/allowance", body=body))

    def remove_allowance(self, virtual_cluster: str) -> None:
        self.send("DELETE", f"{_account(virtual_cluster)}/allowance")

    def transfers(
        self, *, virtual_cluster: str | None = None, limit: int | None = None
    ) -> Iterator[CreditTransfer]:
        """What moved between accounts, the newest first."""
        filters = {"virtual_cluster": virtual_cluster}
        return cast("Iterator[CreditTransfer]", self.pages("/market/transfers", filters, limit))


def _account(virtual_cluster: str) -> str:
    return f"/market/accounts/{quote(virtual_cluster, safe='')}"


@dataclass(frozen=True, slots=True)
class Serving:
    """Pools of nodes that answer requests, as a part of the client."""

    write: Callable[..., Any]
    pages: Callable[..., Iterator[dict[str, Any]]]
    send: Callable[..., Any]

    def list_pools(self) -> list[ServingPool]:
        return cast("list[ServingPool]", list(self.pages("/serving-pools", {}, None)))

    def make(self, name: str, **fields: object) -> ServingPool:
        """Fields: return_seconds, nodes_needed."""
        return cast("ServingPool", self.write("/serving-pools", {"name": name, **fields}))

    def change(self, name: str, **fields: object) -> ServingPool:
        """Fields: return_seconds, nodes_needed."""
        path = f"/serving-pools/{quote(name, safe='')}"
        return cast("ServingPool", self.send("PATCH", path, body=fields))

    def assign(self, name: str, pool: str | None) -> Node:
        """Make the node one of a serving pool, or the cluster's own again."""
        path = f"/nodes/{quote(name, safe='')}/serving-pool"
        return cast("Node", self.send("PUT", path, body={"pool": pool}))

    def lend(self, name: str, *, until: datetime | None = None, why: str = "") -> Node:
        """Lend a node of a serving pool to jobs, for ever or until an instant."""
        body = {"why": why} if until is None else {"why": why, "until": until.isoformat()}
        return cast("Node", self.write(f"/nodes/{quote(name, safe='')}/loan", body))

    def ask_back(self, name: str, *, deadline_seconds: float | None = None, why: str = "") -> Node:
        """Let a serving pool have its node back, by a deadline or as soon as its returns allow."""
        body = _return_body(deadline_seconds, why)
        return cast("Node", self.write(f"/nodes/{quote(name, safe='')}/return", body))

    def ask_cheapest_back(
        self, pool: str, nodes: int, *, deadline_seconds: float | None = None, why: str = ""
    ) -> NodesAskedBack:
        """Give a serving pool this many nodes back: those whose return costs jobs least."""
        body = {**_return_body(deadline_seconds, why), "nodes": nodes}
        return cast("NodesAskedBack", self.write(f"/serving-pools/{quote(pool, safe='')}/returns", body))


def _return_body(deadline_seconds: float | None, why: str) -> dict[str, object]:
    return {"why": why} if deadline_seconds is None else {"why": why, "deadline_seconds": deadline_seconds}


@dataclass(frozen=True, slots=True, kw_only=True)
class Notices:
    """Which events users get, and what a tenant may use up, as a part of the client."""

    read: Callable[..., Any]
    write: Callable[..., Any]
    pages: Callable[..., Iterator[dict[str, Any]]]
    send: Callable[..., Any]

    def settings(self) -> NotificationSettings:
        """What one gets by e-mail."""
        return cast("NotificationSettings", self.read("/notifications"))

    def change(self, changes: Mapping[str, Any]) -> NotificationSettings:
        """Change `jobs`, `tenants` or `cluster`."""
        return cast("NotificationSettings", self.send("PATCH", "/notifications", body=dict(changes)))

    def set_address(self, address: str) -> AddressAnswer:
        """Change one's own e-mail address; a mail to it may have to confirm it."""
        return cast("AddressAnswer", self.send("PUT", "/notifications/address", body={"address": address}))

    def reports(self) -> Iterator[UsageSubscription]:
        """The usage reports that one gets by mail; tenant None means the whole cluster."""
        return cast("Iterator[UsageSubscription]", self.pages("/notifications/reports", {}, None))

    def set_report(self, tenant: str | None, period: str | None) -> UsageSubscriptionAnswer:
        """Get a report each "week" or "month", or None: no more."""
        body = {"tenant": tenant, "period": period}
        return cast("UsageSubscriptionAnswer", self.send("POST", "/notifications/reports", body=body))

    def webhooks(self, tenant: str | None) -> Iterator[Webhook]:
        """Webhooks of a tenant, or of the cluster."""
        return cast("Iterator[Webhook]", self.pages("/webhooks", {"tenant": tenant}, None))

    def webhook(self, webhook: int) -> Webhook:
        return cast("Webhook", self.read(f"/webhooks/{webhook}"))

    def add_webhook(self, wanted: Mapping[str, Any]) -> NewWebhook:
        """Make a webhook: url, topics, tenant, title. The answer alone has its secret."""
        return cast("NewWebhook", self.write("/webhooks", dict(wanted)))

    def change_webhook(self, webhook: int, changes: Mapping[str, Any]) -> Webhook:
        return cast("Webhook", self.send("PATCH", f"/webhooks/{webhook}", body=dict(changes)))

    def remove_webhook(self, webhook: int) -> None:
        self.send("DELETE", f"/webhooks/{webhook}")

    def rotate_secret(self, webhook: int) -> NewWebhook:
        """Make a new secret, which the answer alone has."""
        return cast("NewWebhook", self.write(f"/webhooks/{webhook}/secret"))

    def test_webhook(self, webhook: int) -> Delivery:
        return cast("Delivery", self.write(f"/webhooks/{webhook}/test"))

    def deliveries(
        self, webhook: int, *, state: str | None = None, limit: int | None = None
    ) -> Iterator[Delivery]:
        """What was sent to a webhook or waits, the newest first."""
        return cast(
            "Iterator[Delivery]", self.pages(f"/webhooks/{webhook}/deliveries", {"state": state}, limit)
        )

    def redeliver(self, webhook: int, delivery: int) -> Delivery:
        return cast("Delivery", self.write(f"/webhooks/{webhook}/deliveries/{delivery}/redeliver"))

    def budget(self, tenant: str) -> BudgetState:
        return cast("BudgetState", self.read(_budget(tenant)))

    def set_budget(self, tenant: str, wanted: Mapping[str, Any]) -> BudgetState:
        """Give a tenant a budget: amount, unit, period, action, starts_at."""
        return cast("BudgetState", self.send("PUT", _budget(tenant), body=dict(wanted)))

    def remove_budget(self, tenant: str) -> None:
        self.send("DELETE", _budget(tenant))


def _budget(tenant: str) -> str:
    return f"/tenants/{quote(tenant, safe='')}/budget"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokens:
    """Tokens, as a part of the client."""

    pages: Callable[..., Iterator[dict[str, Any]]]
    send: Callable[..., Any]

    def list(self, *, user: str | None = None, everybody: bool = False) -> Iterator[Token]:
        """One's own, the newest first; for operators those of a user, or of all."""
        filters = {"user": user, "everybody": "true" if everybody or user else None}
        return cast("Iterator[Token]", self.pages("/tokens", filters, None))

    def create(self, wanted: Mapping[str, Any]) -> NewToken:
        """Make a token: name, scopes, expires_in_days, your_password. The answer alone has its text."""
        return cast("NewToken", self.send("POST", "/tokens", body=dict(wanted)))

    def rotate(self, key: str, wanted: Mapping[str, Any]) -> NewToken:
        """Replace one's own token by a new one: overlap_seconds, your_password."""
        return cast("NewToken", self.send("POST", f"/tokens/{quote(key, safe='')}/rotate", body=dict(wanted)))

    def revoke(self, key: str) -> None:
        self.send("DELETE", f"/tokens/{quote(key, safe='')}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """The audit log, as a part of the client."""

    read: Callable[..., Any]
    pages: Callable[..., Iterator[dict[str, Any]]]

    def entries(self, filters: Mapping[str, Any], limit: int | None) -> Iterator[AuditEntry]:
        """Entries, the newest first."""
        return cast("Iterator[AuditEntry]", self.pages("/audit", dict(filters), limit))

    def lines(self, filters: Mapping[str, Any], after: int = 0) -> Iterator[str]:
        """All entries behind one, the oldest first, each as a line of JSON; a reader who goes on
        misses none.
        """
        # An answer without any line has no text at all.
        text = self.read("/audit/export", {**filters, "after": after}) or ""
        yield from cast(str, text).splitlines()

    def after(self, filters: Mapping[str, Any], last: int) -> Iterator[AuditEntry]:
        """The entries behind one, the oldest first."""
        return (cast("AuditEntry", json.loads(line)) for line in self.lines(filters, last))


@dataclass(frozen=True, slots=True, kw_only=True)
class Secrets:
    """Values that jobs are given by name: a tenant's, set by its admins, or one's own."""

    pages: Callable[..., Iterator[dict[str, Any]]]
    send: Callable[..., Any]

    def list(self, tenant: str | None = None) -> Iterator[Secret]:
        """Which there are, not what they are."""
        return cast("Iterator[Secret]", self.pages(_secrets(tenant), {}, None))

    def set(self, name: str, value: str, *, tenant: str | None = None) -> Secret:
        """Store a secret, or replace the one of that name."""
        path = f"{_secrets(tenant)}/{quote(name, safe='')}"
        return cast("Secret", self.send("PUT", path, body={"value": value}))

    def delete(self, name: str, *, tenant: str | None = None) -> None:
        self.send("DELETE", f"{_secrets(tenant)}/{quote(name, safe='')}")


def _secrets(tenant: str | None) -> str:
    return "/secrets" if tenant is None else f"/tenants/{quote(tenant, safe='')}/secrets"


@dataclass(frozen=True, slots=True, kw_only=True)
class Templates:
    """Specifications of a tenant that its members start from."""

    read: Callable[..., Any]
    pages: Callable[..., Iterator[dict[str, Any]]]
    send: Callable[..., Any]

    def list(self, tenant: str) -> Iterator[JobTemplateRow]:
        """A tenant's templates by name, without their specifications."""
        return cast("Iterator[JobTemplateRow]", self.pages(_templates(tenant), {}, None))

    def get(self, tenant: str, name: str) -> JobTemplate:
        return cast("JobTemplate", self.read(f"{_templates(tenant)}/{quote(name, safe='')}"))

    def set(self, tenant: str, name: str, spec: Mapping[str, Any], *, summary: str = "") -> JobTemplate:
        """Save a specification as a template, or replace the one of that name."""
        path, body = f"{_templates(tenant)}/{quote(name, safe='')}", {"spec": dict(spec), "summary": summary}
        return cast("JobTemplate", self.send("PUT", path, body=body))

    def delete(self, tenant: str, name: str) -> None:
        self.send("DELETE", f"{_templates(tenant)}/{quote(name, safe='')}")


def _templates(tenant: str) -> str:
    return f"/tenants/{quote(tenant, safe='')}/templates"
