"""Detect jobs in a simulation that their private clusters would have started by now, and record the cause."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from heapq import heapify, heappop

from scheduler.core.model.plan import Plan, Reason
from scheduler.core.model.snapshot import JobId
from scheduler.core.round.explain import explain
from scheduler.core.round.run_view import ViewOutcome
from scheduler.core.sim.anomalies import evidence_of
from scheduler.core.sim.delays import Evidence
from scheduler.core.sim.engine import Engine


class LateStartDetector:
    """Collects evidence from the first round in which each job is later than its given private start."""

    def __init__(self, private_starts: Mapping[JobId, float]) -> None:
        self.evidence: dict[JobId, Evidence] = {}
        self._due = [(at, job) for job, at in private_starts.items()]
        heapify(self._due)

    def on_round(self, engine: Engine, outcomes: Sequence[ViewOutcome], plan: Plan) -> None:
        """Check a round; called before its plan is carried out."""
        late = set()
        # Also jobs that become late before the next event, since no round comes earlier.
        while self._due and (self._due[0][0] <= engine.now or self._due[0][0] < engine.next_instant):
            job = heappop(self._due)[1]
            if job in engine.round_engine.facts.jobs and engine.progress[job].first_started_at is None:
                late.add(job)
        for action in plan.actions:
            if action.placement is not None:
                late.difference_update(action.jobs)
        if late:
            self._ask(engine, outcomes, plan, late)

    def _ask(self, engine: Engine, outcomes: Sequence[ViewOutcome], plan: Plan, late: set[JobId]) -> None:
        facts, admission = engine.round_engine.facts, engine.round_engine.admission
        views = {facts.jobs[job].virtual_cluster for job in late}
        # Explain only these views, and the last view for what it left, because thousands of jobs may wait in
        # the others.
        last = outcomes[-1]
        chosen = [outcome for outcome in outcomes[:-1] if outcome.view.name in views]
        chosen.append(replace(last, view=replace(last.view, jobs={})))
        reasons = explain(facts, admission, chosen, plan.actions)
        for job in late:
            evidence = evidence_of(reasons.get(job, ()), engine.rounds)
            head = _head_before(reasons.get(job, ()))
            if head is not None:
                # A job behind another waits because of the same cause.
                evidence = replace(evidence, cause=evidence_of(reasons.get(head, ()), engine.rounds).cause)
            self.evidence[job] = evidence


def _head_before(reasons: Sequence[Reason]) -> JobId | None:
    """Return the job behind which a job waits, if that is the reason."""
    if not reasons or reasons[0].code != "behind_head":
        return None
    return next(iter(reasons[0].blocking.get("jobs", ())), None)
