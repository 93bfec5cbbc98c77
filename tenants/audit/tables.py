"""Which tables are audited, and which parts of them: one line for each model of the project.

Tables that hold decisions of people are; tables that machines write all the time are not, each with the
reason. A test fails for a model that is in neither list. Columns are audited unless they are named here, so
that a new one cannot be forgotten, except those that look like secrets: of these only the fact of a change is
recorded.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

#: Never recorded, whatever the table, unless it is named in `shown`. So is every column of bytes.
SECRET = re.compile(r"password|secret|digest|hash|seed|cipher|private|(^|_)(key|token|value)$", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class AuditedTable:
    """How changes of a table are recorded. `name`, `tenant`, `only` and the conditions are SQL,
    `r` the row.
    """

    #: What a row is, in the words of docs/architecture.md.
    what: str
    #: What people call this one.
    name: str
    #: Id of the tenant whose admins may see the entry; none: operators only.
    tenant: str = "NULL::bigint"
    #: Columns that look like secrets and are not.
    shown: tuple[str, ...] = ()
    #: Secrets whose name does not say it.
    hidden: tuple[str, ...] = ()
    #: Columns of the machinery: neither recorded, nor is a change of them a change.
    left_out: tuple[str, ...] = ()
    #: Recorded, but no change by themselves.
    unwatched: tuple[str, ...] = ()
    #: Rows that are recorded when they are made or removed.
    only: str = "true"
    #: When a change of unwatched columns counts all the same, by `old` and `new`.
    watched_when: str = "false"
    #: Changes that have a name of their own, in the order in which they are looked for.
    changes: Mapping[str, str] = field(default_factory=dict)


def _user(column: str = "r.user_id") -> str:
    return f"(SELECT username FROM tenants_user WHERE id = {column})"


def _virtual_cluster(column: str = "r.virtual_cluster_id") -> str:
    return f"(SELECT name FROM tenants_virtualcluster WHERE id = {column})"


_TENANT = "(SELECT name FROM tenants_tenant WHERE id = r.tenant_id)"
_ACCOUNT = (
    "(SELECT c.name FROM scheduler_creditaccount a JOIN tenants_virtualcluster c"
    " ON c.id = a.virtual_cluster_id WHERE a.id = {})"
)
_TENANT_OF_ATTEMPT = (
    "(SELECT j.tenant_id FROM scheduler_attempt a JOIN scheduler_job j ON j.id = a.job_id"
    " WHERE a.id = r.attempt_id)"
)
_JOB_OF_ATTEMPT = "(SELECT 'job ' || a.job_id FROM scheduler_attempt a WHERE a.id = r.attempt_id)"

_MEMBER = (
    "(SELECT username FROM tenants_user WHERE id ="
    " (SELECT user_id FROM tenants_membership WHERE id = r.membership_id))"
)
_TENANT_OF_MEMBER = "(SELECT tenant_id FROM tenants_membership WHERE id = r.membership_id)"

#: By model, "app.Model".
AUDITED: Mapping[str, AuditedTable] = {
    "auth.Group": AuditedTable(what="group", name="r.name"),
    "tenants.User": AuditedTable(
        what="user",
        name="r.username",
        left_out=("last_login", "saw_tour"),
        changes={
            "password": "old.password <> new.password",
            "disable": "old.is_active AND NOT new.is_active",
            "enable": "new.is_active AND NOT old.is_active",
        },
    ),
    "tenants.User_groups": AuditedTable(what="group member", name=_user()),
    "tenants.User_user_permissions": AuditedTable(what="permission", name=_user()),
    "tenants.Tenant": AuditedTable(
        what="tenant",
        name="r.name",
        tenant="r.id",
        left_out=("version",),
        changes={
            "quota": "(old.quota_cpus, old.quota_memory_bytes)"
            " IS DISTINCT FROM (new.quota_cpus, new.quota_memory_bytes)"
        },
    ),
    "tenants.Membership": AuditedTable(what="member", name=_user(), tenant="r.tenant_id"),
    "tenants.Invitation": AuditedTable(
        what="invitation",
        name="r.key || coalesce(' for ' || nullif(r.email, ''), '')",
        tenant="r.tenant_id",
        shown=("key",),
        left_out=("names_tried",),
        changes={
            "accept": "old.ended_at IS NULL AND new.accepted_by_id IS NOT NULL",
            "revoke": "old.ended_at IS NULL AND new.ended_at IS NOT NULL",
        },
    ),
    "tenants.Token": AuditedTable(
        what="token",
        name=f"r.key || ' of ' || {_user()}",
        shown=("key",),
        left_out=("last_used_at", "last_used_from", "first_used_at", "first_used_from"),
        changes={"rotate": "old.replaced_by_id IS NULL AND new.replaced_by_id IS NOT NULL"},
    ),
    # Only that its value changed is recorded: `sealed` is made of bytes, which are never shown.
    "tenants.Secret": AuditedTable(
        what="secret",
        name=f"r.name || coalesce(' of ' || {_user()}, '')",
        tenant="r.tenant_id",
        hidden=("key_id",),
        left_out=("key_id", "last_used_at"),
        unwatched=("changed_at", "changed_by"),
    ),
    "tenants.Quota": AuditedTable(what="quota", name="r.gpu_model", tenant="r.tenant_id"),
    "tenants.VirtualCluster": AuditedTable(what="virtual cluster", name="r.name", left_out=("version",)),
    "tenants.VirtualClusterMember": AuditedTable(
        what="virtual cluster member",
        name=f"{_TENANT} || ' in ' || {_virtual_cluster()}",
        tenant="r.tenant_id",
    ),
    "tenants.Guarantee": AuditedTable(
        what="guarantee", name=f"r.gpu_model || ' of ' || {_virtual_cluster()}"
    ),
    "scheduler.Advice": AuditedTable(
        what="advice",
        name="r.id",
        left_out=("state", "problem", "fields", "made_at", "answer", "specification", "based_on_version"),
        changes={"apply": "old.applied_at IS NULL AND new.applied_at IS NOT NULL"},
    ),
    "scheduler.ElasticitySavings": AuditedTable(
        what="elasticity savings", name="r.id", left_out=("state", "problem", "made_at", "answer")
    ),
    "scheduler.Archive": AuditedTable(
        what="archive",
        name="left(r.digest, 12)",
        tenant="r.tenant_id",
        shown=("digest",),
        left_out=("used_at", "removed_at"),
    ),
    "scheduler.Budget": AuditedTable(
        what="budget",
        name=_TENANT,
        tenant="r.tenant_id",
        left_out=("period_starts_at", "period_ends_at", "told_percent", "is_spent"),
    ),
    "scheduler.UserBudget": AuditedTable(
        what="user budget",
        name=_MEMBER,
        tenant=_TENANT_OF_MEMBER,
        left_out=("period_starts_at", "period_ends_at", "told_percent", "is_spent"),
    ),
    "scheduler.UserQuota": AuditedTable(what="user quota", name=_MEMBER, tenant=_TENANT_OF_MEMBER),
    # Every version of the document stays in its own table.
    "scheduler.CellSpecification": AuditedTable(
        what="cell specification", name="'version ' || r.version", left_out=("document",)
    ),
    "scheduler.ClusterSettings": AuditedTable(what="cluster settings", name="'cluster'"),
    "scheduler.FailureRules": AuditedTable(
        what="failure rules", name="'cluster'", unwatched=("changed_at", "changed_by")
    ),
    "scheduler.GpuModel": AuditedTable(what="GPU model", name="r.name", left_out=("memory_bytes",)),
    "scheduler.Node": AuditedTable(
        what="node",
        name="r.name",
        shown=("token_key",),
        left_out=("boot", "lease_expires_at", "generation", "version", "cpus", "memory_bytes", "isolation"),
        unwatched=(
            "state",
            "cordoned_by",
            "cordon_why",
            "cordoned_at",
            "address",
            "loan_by",
            "loan_why",
            "loan_since",
            "return_stops_at",
        ),
        watched_when="old.state = 'new' AND new.state <> 'new'",
        changes={
            "register": "old.state = 'new' AND new.state <> 'new'",
            "token": "old.token_key IS DISTINCT FROM new.token_key",
            "drain": "new.draining AND NOT old.draining",
            "cordon": "new.cordoned AND NOT old.cordoned",
            "uncordon": "old.cordoned AND NOT new.cordoned",
            "lend": "new.loan_state = 'lent' AND old.loan_state <> 'lent'",
            "ask_back": "new.loan_state = 'returning' AND old.loan_state = 'lent'",
            "give_back": "new.loan_state = 'serving' AND old.loan_state = 'returning'",
            "upgrade": "old.agent_version <> '' AND old.agent_version <> new.agent_version",
        },
    ),
    "scheduler.ServingPool": AuditedTable(what="serving pool", name="r.name"),
    "scheduler.MaintenanceWindow": AuditedTable(
        what="maintenance window",
        name="r.id || ': ' || r.reason",
        left_out=("made_at",),
        # That it begins and ends is decided when it is made.
        unwatched=("state",),
        watched_when="new.state = 'cancelled' AND old.state <> 'cancelled'",
        changes={"cancel": "new.state = 'cancelled' AND old.state <> 'cancelled'"},
    ),
    "scheduler.Reservation": AuditedTable(
        what="reservation",
        name="r.name",
        tenant="r.tenant_id",
        left_out=("made_at",),
        changes={"cancel": "new.cancelled_at IS NOT NULL AND old.cancelled_at IS NULL"},
    ),
    "scheduler.Job": AuditedTable(
        what="job",
        name="r.name",
        tenant="r.tenant_id",
        # Only what columns repeat changes in the specification; what people put into its `env` is theirs.
        left_out=(
            "spec",
            "shape",
            "eligible_at",
            "attempts_started",
            "failures",
            "preemptions",
            "short_runs",
            "may_borrow_at",
            "preemption_cost_seconds",
            "avoid_nodes",
            "service",
            "pace",
            "started_at",
            "ended_at",
            "exit_code",
            "message",
            "version",
        ),
        # What happens to a job by itself is in its events.
        unwatched=("state", "gpus"),
        watched_when="new.state = 'cancelled' AND old.state <> 'cancelled' AND NOT old.cancelling",
        changes={
            "cancel": "(new.cancelling AND NOT old.cancelling) OR new.state = 'cancelled'",
            "hold": "new.held AND NOT old.held",
            "release": "old.held AND NOT new.held",
        },
    ),
    "scheduler.Allowance": AuditedTable(
        what="allowance", name=_ACCOUNT.format("r.account_id"), left_out=("next_at",)
    ),
    "scheduler.MarketRule": AuditedTable(
        what="market rule",
        name=f"r.id || ' of ' || {_virtual_cluster()}",
        changes={"end": "old.removed_at IS NULL AND new.removed_at IS NOT NULL"},
    ),
    "scheduler.Offer": AuditedTable(
        what="offer",
        name=f"r.id || ' of ' || {_virtual_cluster('r.lender_id')}",
        left_out=("version",),
        changes={
            "take": "old.state = 'open' AND new.state = 'taken'",
            "withdraw": "old.state = 'open' AND new.state = 'withdrawn'",
            "expire": "old.state = 'open' AND new.state = 'expired'",
        },
    ),
    "scheduler.Loan": AuditedTable(
        what="loan",
        name=f"r.id || ' to ' || {_virtual_cluster('r.borrower_id')}",
        left_out=("version", "begun"),
        changes={"end": "old.ended_at IS NULL AND new.ended_at IS NOT NULL"},
    ),
    # What is paid for loans and by allowances is not decided each time; all of it is in this table for good.
    "scheduler.CreditTransfer": AuditedTable(
        what="credits",
        name=f"coalesce({_ACCOUNT.format('r.credit_id')}, {_ACCOUNT.format('r.debit_id')})",
        only="r.kind IN ('grant', 'taken_back')",
        left_out=("due_at", "round_number", "loan_id"),
    ),
    "scheduler.NotificationSettings": AuditedTable(
        what="notification settings",
        name=_user(),
        left_out=("mail_not_before", "mail_failures", "mail_problem", "confirmation_asked_at"),
    ),
    "scheduler.UsageSubscription": AuditedTable(
        what="usage report",
        name=f"coalesce({_TENANT}, 'the cluster') || ' to ' || {_user()}",
        tenant="r.tenant_id",
        left_out=("reported_until",),
    ),
    "scheduler.SavedSearch": AuditedTable(what="saved search", name="r.name", tenant="r.tenant_id"),
    "scheduler.JobTemplate": AuditedTable(
        what="template", name="r.name", tenant="r.tenant_id", left_out=("changed_at",)
    ),
    "scheduler.Webhook": AuditedTable(
        what="webhook",
        # Many services let anyone post who knows the whole address.
        name="r.id || ' to ' || substring(r.url from '//([^/?#]+)')",
        tenant="r.tenant_id",
        hidden=("url",),
        left_out=("old_seed_ends_at", "taken_until", "held_until", "failures", "failing_since"),
        changes={"secret": "old.seed <> new.seed"},
    ),
    "scheduler.Overcommitment": AuditedTable(what="overcommitment", name=_virtual_cluster()),
    "scheduler.PreemptionLimits": AuditedTable(what="preemption limits", name=_virtual_cluster()),
    # A visit to a port makes a connection for each picture of a page: its pass is recorded instead.
    "scheduler.Session": AuditedTable(
        what="session",
        name=_JOB_OF_ATTEMPT,
        tenant=_TENANT_OF_ATTEMPT,
        only="r.port = ''",
        left_out=("address", "joined_at", "seen_at", "ended_at", "exit_code"),
    ),
    "scheduler.PortPass": AuditedTable(
        what="port pass",
        name=f"{_JOB_OF_ATTEMPT} || ', port ' || r.port",
        tenant=_TENANT_OF_ATTEMPT,
        hidden=("session_key", "key"),
        left_out=("is_ticket", "expires_at", "key", "digest"),
        only="r.is_ticket",
    ),
    "scheduler.SpeedCorrection": AuditedTable(
        what="speed correction",
        name="r.application || ' on ' || r.gpus || ' ' || r.gpu_model",
        tenant="r.tenant_id",
        shown=("value",),
        left_out=("at",),
    ),
}

_BY_ROUNDS = "written by rounds; each round is on record with its snapshot and its plan"
_BY_AGENTS = "reported by agents all the time; what matters of it is in the events"
_HISTORY = "appended as history, and never changed by people"
_COMPUTED = "computed from other tables"
_BOOKS = "the platform's own bookkeeping"

#: Why the others are not.
NOT_AUDITED: Mapping[str, str] = {
    "auth.Permission": "made by migrations; the platform does not look at it",
    "auth.Group_permissions": "the platform does not look at it",
    "contenttypes.ContentType": "made by migrations",
    "sessions.Session": "signing in and out are entries of their own; the rest is a cookie's memory",
    "tenants.AuditEntry": "is the log itself",
    "tenants.AuditReceiver": "how far the log was forwarded",
    "scheduler.AllocatedGpu": _BY_ROUNDS,
    "scheduler.Allocation": _BY_ROUNDS,
    "scheduler.AnomalyReport": _COMPUTED,
    "scheduler.Attempt": _BY_ROUNDS,
    "scheduler.AttemptPart": _BY_AGENTS,
    "scheduler.CreditAccount": "sums of the transfers, kept by triggers",
    "scheduler.Delivery": _BOOKS,
    "scheduler.Dependency": "in the specification of its job, whose making is an entry; settled by rounds",
    "scheduler.EmailNotice": _BOOKS,
    "scheduler.Event": _HISTORY,
    "scheduler.Explanation": _BY_ROUNDS,
    "scheduler.ClassProfile": _BY_AGENTS,
    "scheduler.CpuSensitivity": _BY_AGENTS,
    "scheduler.FairnessProgress": _COMPUTED,
    "scheduler.FairnessSample": _COMPUTED,
    "scheduler.FairnessState": _COMPUTED,
    "scheduler.FairnessViolation": _COMPUTED,
    "scheduler.Forecast": _COMPUTED,
    "scheduler.FragmentationSample": _COMPUTED,
    "scheduler.Gpu": _BY_AGENTS,
    "scheduler.InputPool": "what a trainer asks for; the jobs of its workers are entries",
    "scheduler.InterferenceFit": _COMPUTED,
    "scheduler.JobProfile": _BY_AGENTS,
    "scheduler.JobScaling": _BY_AGENTS,
    "scheduler.Leadership": _BY_ROUNDS,
    "scheduler.LedgerLine": _HISTORY,
    "scheduler.LogChunk": _BY_AGENTS,
    "scheduler.LogRemoval": "retention by setting; nobody decides it each time",
    "scheduler.NodeCheck": _BY_AGENTS,
    "scheduler.NodeMetrics": _BY_AGENTS,
    "scheduler.NodePeak": _COMPUTED,
    "scheduler.PartMetrics": _BY_AGENTS,
    "scheduler.PeakSamples": _COMPUTED,
    "scheduler.PolicyMemory": _BY_ROUNDS,
    "scheduler.ProgressPoint": _BY_AGENTS,
    "scheduler.ProgressThinning": _COMPUTED,
    "scheduler.QueueOrder": _BY_ROUNDS,
    "scheduler.Round": _BY_ROUNDS,
    "scheduler.SpeedMeasurement": "measured all the time; an import by a person is an entry of its own",
    "scheduler.TrainingProgress": _BY_AGENTS,
    "scheduler.UsageSample": _COMPUTED,
    "scheduler.ViewComputing": _BY_ROUNDS,
    "scheduler.WhatIf": "a question, which changes nothing",
    "controlplane.Readiness": "always empty",
    "scheduler.AgentService": "a pulse, once a second",
    "controlplane.IdempotentAnswer": "a copy of an answer; what it answered is audited",
}
