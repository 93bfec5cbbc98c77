"""The circuit breaker of views whose policy takes too long: its start, its next trial, and its events.

A cheap policy serves such a view. The view's own policy would cost each round its whole time limit, so it is
tried again after 1 round, then after 2, 4 and so on up to 64. The first time that it decides in time ends the
episode. Start and end are events, and show on the page of virtual clusters.

A policy that never returns may serve many views, and a round ends before each of them has had its time. So
the second late view of a policy crowds out the others that it serves, and late views that took half of a
round's time together crowd out all others. The cheap policy decides for them, too. They have not failed, and
are tried in the next round. The same holds for all views where their plan breaks a rule of the whole cluster.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import fields, replace
from datetime import datetime
from typing import Any

from django.conf import settings
from django.db.models import F

from scheduler.core.model.plan import Plan
from scheduler.core.model.snapshot import Snapshot
from scheduler.core.round.reserve import SPARE
from scheduler.core.round.run_view import CHEAP
from scheduler.models.events import Event
from scheduler.models.rounds import ViewComputing
from scheduler.rounds.solver import Budget
from scheduler.virtual_clusters.representations import publish_virtual_clusters
from tenants.models import VirtualCluster

#: Kinds of events.
TOO_SLOW, IN_TIME = "virtual_cluster.policy_too_slow", "virtual_cluster.policy_in_time"
#: The longest pause between two attempts, in rounds.
MOST_ROUNDS_SKIPPED = 64
#: Late views of a policy after which its other views are not tried in the same round.
MOST_LATE = 2
#: What late views may take of the 60 s after which a round is ended.
LATE_SECONDS = 30.0


class CircuitBreaker:
    """What is known of the computations of views, for one round."""

    def __init__(self, facts: Snapshot) -> None:
        self._policies = _policies(facts)
        self._rows = {row.view: row for row in ViewComputing.objects.all()}
        #: Views whose policy is not tried in this round, and why; an argument of `decide()`.
        self.skipped: Mapping[str, str] = {
            view: _skipped(row)
            for view, row in self._rows.items()
            if row.rounds_to_skip and row.policy == self._policies.get(view)
        }
        self._crowded_out: set[str] = set()

    def crowd_out(self, late: Collection[str]) -> Mapping[str, str]:
        """Return the views that are not tried any more in a round in which these were late, and why."""
        counts = Counter(self._policies[view][0] for view in late)
        is_over = len(late) * settings.CONFIG.view_budget_seconds >= LATE_SECONDS
        out = {
            view: "policies of other views took all the time that a round has"
            for view, (policy, _) in self._policies.items()
            if view not in late and (is_over or counts[policy] >= MOST_LATE)
        }
        self._crowded_out.update(out)
        return out

    def set_aside(self, why: str) -> Mapping[str, str]:
        """Return all views, none of which is tried in this round any more, and why."""
        self._crowded_out.update(self._policies)
        return {**dict.fromkeys(self._policies, why), **self.skipped}

    @property
    def expects_computations(self) -> bool:
        """Whether a policy in use has computed before."""
        return any(row.policy == self._policies.get(view) for view, row in self._rows.items())

    def write(self, plan: Plan, budget: Budget, *, at: datetime) -> None:
        """Record the times of the round's computations, and which episodes began and ended."""
        actor = f"round {plan.round_number}"
        concerned = {*self._rows, *budget.computations, *plan.overran} & set(self._policies)
        begun, over, written = [], [], []
        for view in sorted(concerned):
            row = self._rows.get(view) or ViewComputing(view=view)
            was_since, before = row.since, _values(row)
            if row.policy != self._policies[view]:
                # Results of another policy do not hold for this one.
                row.policy, row.since, row.message = self._policies[view], None, ""
                row.failures = row.rounds_to_skip = 0
            if view in budget.computations:
                row.computations += budget.computations[view]
                row.last_seconds = budget.seconds[view]
            if view in plan.overran:
                self._overran(row, plan, budget, at=at)
            else:
                row.since, row.message, row.failures, row.rounds_to_skip = None, "", 0, 0
            if was_since is not None and row.since != was_since:
                over.append(row)
            if row.since is not None and row.since != was_since:
                begun.append(row)
            if _values(row) != before:
                written.append(row)
        _store(written, gone=set(self._rows) - set(self._policies))
        _tell(IN_TIME, {row.view: "the policy recovered and decides again" for row in over}, at, actor)
        words = {row.view: f"{row.message}; {CHEAP.policy} decides meanwhile" for row in begun}
        _tell(TOO_SLOW, words, at, actor)

    def _overran(self, row: ViewComputing, plan: Plan, budget: Budget, *, at: datetime) -> None:
        row.since = row.since or at
        if row.view in self.skipped:
            row.rounds_to_skip -= 1
            return
        row.message = plan.degraded[row.view]
        # A policy that could not begin has not failed: it is tried again in the next round.
        if row.view not in budget.crowded_out | self._crowded_out:
            row.overruns += 1
            row.failures += 1
            row.rounds_to_skip = min(2 ** (row.failures - 1), MOST_ROUNDS_SKIPPED)


def with_breakers_open(facts: Snapshot) -> Snapshot:
    """Return the facts with a cheap policy for each view whose own policy is too slow at present.

    Previews, questions and forecasts decide ahead of time by these facts, without waiting for it again.
    """
    policies = _policies(facts)
    slow = {
        row.view
        for row in ViewComputing.objects.filter(since__isnull=False)
        if row.policy == policies.get(row.view)
    }
    return with_cheap(facts, slow)


def with_cheap(facts: Snapshot, views: Collection[str]) -> Snapshot:
    """Return the facts with a cheap policy and placer for these views."""
    if not views:
        return facts
    cheap = {field.name: getattr(CHEAP, field.name) for field in fields(CHEAP)}
    clusters = [replace(vc, **cheap) if vc.name in views else vc for vc in facts.virtual_clusters]
    spare = {f"spare_{name}": value for name, value in cheap.items()} if SPARE in views else {}
    return replace(facts, virtual_clusters=tuple(clusters), **spare)


def _policies(facts: Snapshot) -> dict[str, list[Any]]:
    """Return name and parameters of each view's policy."""
    named = {vc.name: [vc.policy, dict(vc.policy_parameters)] for vc in facts.virtual_clusters}
    return {**named, SPARE: [facts.spare_policy, dict(facts.spare_policy_parameters)]}


def _skipped(row: ViewComputing) -> str:
    rounds = "in the next round" if row.rounds_to_skip == 1 else f"in {row.rounds_to_skip} rounds"
    return f"{row.message}; it is tried again {rounds}"


def _values(row: ViewComputing) -> tuple[Any, ...]:
    return tuple(getattr(row, field.attname) for field in row._meta.concrete_fields)


def _store(rows: list[ViewComputing], gone: Collection[str]) -> None:
    columns = [field.name for field in ViewComputing._meta.concrete_fields if not field.primary_key]
    ViewComputing.objects.bulk_create(
        rows, update_conflicts=True, unique_fields=["view"], update_fields=columns
    )
    if gone:
        ViewComputing.objects.filter(view__in=gone).delete()


def _tell(kind: str, words: Mapping[str, str], at: datetime, actor: str) -> None:
    if not words:
        return
    ids = dict(VirtualCluster.objects.filter(name__in=words).values_list("name", "id"))
    Event.objects.bulk_create(
        Event(
            at=at,
            kind=kind,
            subject="virtual_cluster" if view in ids else "cluster",
            subject_id=ids.get(view, 0),
            actor=actor,
            message=f"{view}: {what}"[:500],
            data={"view": view},
        )
        for view, what in words.items()
    )
    # Pages keep the newest version of each object.
    VirtualCluster.objects.filter(id__in=ids.values()).update(version=F("version") + 1)
    publish_virtual_clusters(ids.values())
