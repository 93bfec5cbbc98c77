"""Step 1, admit: which jobs are considered in this round, and why the others are not.

Jobs that run are always admitted, unless they are being cancelled or have used up their time. A tenant's
quota is handed out to its jobs in a fixed order (running jobs first, then by priority and age), before any
policy sees them. So no policy needs to know quotas, and a small job cannot push back a large one of the same
tenant forever.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import replace
from math import inf

from scheduler.core.building_blocks.service import INSTANT_SECONDS
from scheduler.core.fitting.demand import least_gpus, models_of
from scheduler.core.fitting.feasible import Feasibility
from scheduler.core.fitting.quotas import Amounts, exact, quotas_of
from scheduler.core.lending.in_force import own_of
from scheduler.core.model import wording
from scheduler.core.model.plan import Reason, Tier
from scheduler.core.model.snapshot import AllocationId, Job, JobId, Running, Tenant, VirtualCluster
from scheduler.core.round.alarms import Alarms
from scheduler.core.round.array_limits import ArrayLimits, no_place
from scheduler.core.round.awaiting import awaiting
from scheduler.core.round.facts import Facts
from scheduler.core.round.idle_now import IdleNow
from scheduler.core.round.overcommitment import giving_way
from scheduler.core.round.quotas import counted, hand_out
from scheduler.core.round.reservations import described, not_begun, stopped_by
from scheduler.core.serving_pools.returning import returns, stop_instant

#: Codes of jobs that are larger than what their virtual cluster is guaranteed.
TOO_LARGE = ("exceeds_guarantee", "exceeds_cells")


class Admission:
    """The jobs to consider, the reasons for holding back others, and the allocations that end in any case."""

    def __init__(self, facts: Facts, only_starts: Callable[[VirtualCluster], bool] | None = None) -> None:
        """`only_starts`: whether the policy of a virtual cluster never makes room among its own jobs."""
        self._facts = facts
        self._only_starts = only_starts or (lambda _: False)
        #: By virtual cluster, as far as needed in this round: whether its policy makes room among its own
        #: jobs.
        self._makes_room: dict[str, bool] = {}
        self._feasibility = Feasibility(facts.cluster, facts.tenants, facts.virtual_clusters, facts.layout)
        #: The feasibility once all loans have ended; None if nothing is lent.
        self._after_loans = _after_loans(facts)
        #: Jobs whose stopping processes still count against a quota, with the tenant.
        self._ending_of: dict[JobId, str] = {}
        #: Jobs to check again, and jobs that begin.
        self._alarms, self._begins = Alarms(), Alarms()
        #: Tenants whose jobs want more than their quota; the order of their jobs depends on what is idle.
        self._crowded: set[str] = set()
        #: What is idle as this round begins; None until it is computed.
        self._idle_now: IdleNow | None = None
        self._arrays = ArrayLimits(facts)
        #: Jobs that only a quota or the limit of an array may hold back.
        self._considered: set[JobId] = set()
        self.admitted: dict[JobId, Job] = {}
        self.held_back: dict[JobId, tuple[Reason, ...]] = {}
        #: Jobs that ran as guaranteed and are too large for the present guarantee, with the reason. Until
        #: there is room again, they are considered as opportunistic.
        self.outgrown: dict[JobId, Reason] = {}
        #: Allocation -> (cause, sentence for its jobs).
        self.endings: dict[AllocationId, tuple[str, str]] = {}
        #: The same for jobs that end by time or cancellation while other jobs on their GPUs run on.
        self.partings: dict[JobId, tuple[str, str]] = {}
        #: Allocation -> sentence, for allocations that end because a node's jobs use more than predicted.
        self.giving_way: dict[AllocationId, str] = {}

    def refresh(self) -> set[JobId]:
        """Check again jobs that changed or whose instant has come, and those with the same quota or array.

        Return the former, and those of the latter whose admission has changed.
        """
        facts = self._facts
        self._makes_room.clear()
        while self.next_alarm <= facts.frame.now:
            facts.changed_jobs.add(self._alarms.pop()[1])
        for allocation in self.endings.keys() & facts.changed_allocations:
            del self.endings[allocation]
        self.giving_way = giving_way(facts) if facts.frame.peaks else {}
        for allocation in self.giving_way:
            facts.changed_jobs.update(facts.running[allocation].jobs)
        looked_at, changed = self._concerned(), facts.changed_jobs
        self._forget(changed)
        candidates: dict[str, list[Job]] = {}
        #: Jobs that are checked because of others, as they were admitted before.
        before: dict[JobId, Job | None] = {}
        for number in sorted(looked_at):
            job = facts.jobs.get(number)
            if job is None:
                continue
            if number in changed:
                if not self._may_be_considered(job):
                    continue
                self._considered.add(number)
            elif number in self._considered:
                before[number] = self.admitted.pop(number, None)
                self.held_back.pop(number, None)
            else:
                continue
            if self._arrays.has_place(job):
                candidates.setdefault(job.tenant, []).append(job)
            else:
                self.held_back[number] = (no_place(job),)
        self._crowded.clear()
        self._idle_now = None
        for tenant, jobs in candidates.items():
            quotas = quotas_of(facts.tenants.get(tenant))
            held = self._still_held(tenant) if quotas else ()
            handed = hand_out(quotas, jobs, held, self._in_order, facts)
            self.admitted.update(handed.admitted)
            self.held_back.update(handed.held_back)
            if handed.is_crowded:
                self._crowded.add(tenant)
        news = {number for number, job in before.items() if self.admitted.get(number) is not job}
        return news | changed

    def _concerned(self) -> set[JobId]:
        """Return the jobs that changed, with the jobs that this may affect."""
        facts = self._facts
        # Whether an allocation ends, or some jobs leave it, depends on all jobs that share it.
        for changed in list(facts.changed_jobs):
            sharing = facts.current.get(changed)
            if sharing is not None and len(sharing.jobs) > 1:
                facts.changed_jobs.update(sharing.jobs)
        looked_at = set(facts.changed_jobs)
        # An ended job leaves more of its tenant's quota to hand out.
        tenants = {
            known[number].tenant
            for known in (facts.jobs, self.admitted)
            for number in known.keys() & facts.changed_jobs
        }
        capped = {tenant for tenant in tenants & facts.tenants.keys() if facts.tenants[tenant].is_capped}
        # What these jobs held could not be handed out until now.
        capped.update(self._ending_of.pop(number) for number in facts.changed_jobs & self._ending_of.keys())
        for tenant in capped | self._crowded:
            looked_at.update(facts.by_tenant.get(tenant, ()))
        # This comes last, so that no job keeps a place of its array from an earlier round.
        return looked_at | self._arrays.siblings(looked_at)

    def _forget(self, jobs: Set[JobId]) -> None:
        """Forget the results for jobs that changed, or whose instant has come."""
        for known in (self.admitted, self.held_back, self.outgrown, self.partings):
            for number in known.keys() & jobs:
                del known[number]
        self._considered -= jobs

    @property
    def wake_at(self) -> float | None:
        """When the next job with a stated start begins; None: there is none."""
        while (begin := self._begins.first) is not None:
            instant, number = begin
            job = self._facts.jobs.get(number)
            if job is not None and job.eligible_at == instant and self._begins_later(job):
                return instant
            self._begins.pop()
        return None

    @property
    def is_crowded(self) -> bool:
        """Whether a quota holds back jobs that would otherwise be considered."""
        return bool(self._crowded)

    @property
    def next_alarm(self) -> float:
        """The instant at which the next job is checked again without an event."""
        return inf if (alarm := self._alarms.first) is None else alarm[0]

    def _begins_later(self, job: Job) -> bool:
        return job.id not in self._facts.current and begins_later(job, self._facts.frame.now)

    def may_make_room(self, job: Job) -> bool:
        """Whether the policy of a guaranteed job may stop others of its virtual cluster for it."""
        name, known = job.virtual_cluster, self._facts.virtual_clusters
        if name not in self._makes_room:
            self._makes_room[name] = name in known and not self._only_starts(known[name])
        return job.guaranteed and self._makes_room[name]

    def is_due(self, job: Job) -> bool:
        """Whether a job has waited for longer than its virtual cluster allows."""
        vc = self._facts.virtual_clusters.get(job.virtual_cluster)
        return vc is not None and is_due(vc.due_at(job.waiting_since), self._facts.frame.now)

    @property
    def idle_now(self) -> IdleNow:
        """What is idle as this round begins."""
        if self._idle_now is None:
            self._idle_now = IdleNow(self._facts)
        return self._idle_now

    def _still_held(self, tenant: str) -> list[tuple[Job, str, Amounts]]:
        """Return what stopping processes of a tenant still hold, by job and model.

        What their jobs are already nominated for is left out.
        """
        facts = self._facts
        found: list[tuple[Job, str, Amounts]] = []
        for number, leaving in facts.stopping.items():
            job = facts.jobs.get(number)
            first = leaving.leaving + (leaving.jobs[:1] if leaving.stopping else ())
            if job is None or job.tenant != tenant or number not in first:
                continue
            self._ending_of[number] = tenant
            gpus, cpus, memory = counted(job, leaving, facts)
            next_one = facts.current.get(number)
            if next_one is not None:
                promised = counted(job, next_one, facts)
                cpus, memory = cpus - promised.cpus, memory - promised.memory_bytes
                gpus -= promised.gpus if next_one.gpu_model == leaving.gpu_model else 0
            found.append((job, leaving.gpu_model, Amounts(max(gpus, 0), exact(max(cpus, 0)), max(memory, 0))))
        return found

    def _in_order(self, jobs: Sequence[Job]) -> Sequence[Job]:
        """Sort a tenant's jobs in the order in which its quota is handed out.

        Running jobs come first. Jobs without GPUs available now come last, so that they block no job that can
        start. A guaranteed job keeps its place where its policy may make room for it, and so does every job
        that has waited longer than its virtual cluster allows.
        """

        def place(job: Job) -> tuple[bool, bool, int, float, JobId]:
            waits = job.id not in self._facts.current
            keeps = not waits or self.may_make_room(job) or self.is_due(job)
            lacks = not keeps and not self.idle_now.are_enough_for(job)
            return waits, lacks, -job.priority, job.submitted_at, job.id

        return sorted(jobs, key=place)

    def _never_fits(self, job: Job) -> Reason | None:
        """Return why the job could never run, or None; record it in `outgrown` where only its guarantee is
        gone.
        """
        if job.reserved is not None:
            job = replace(job, reserved=None)  # No reservation lasts forever.
        never = self._feasibility.never_fits(job)
        if never is None or (self._after_loans is not None and self._after_loans.never_fits(job) is None):
            return None
        if never.code not in TOO_LARGE or not (job.attempts or self._may_borrow(job)):
            return never
        if self._feasibility.never_fits(replace(job, guaranteed=False)) is not None:
            return never
        if not job.attempts:
            return None  # It waits for a loan.
        self.outgrown[job.id] = Reason(
            code="guarantee_gone",
            tier=Tier.GUARANTEE,
            message=never.message,
            blocking=never.blocking,
            needed=never.needed,
            available=never.available,
            hint="It ran while more was guaranteed. Until that is so again it waits as an opportunistic job.",
        )
        return None

    def _may_borrow(self, job: Job) -> bool:
        """Return whether its virtual cluster has a rule by which it could borrow what the job needs."""
        lending, models = self._facts.frame.lending, models_of(job, self._facts.cluster)
        return lending is not None and any(
            rule.virtual_cluster == job.virtual_cluster and rule.may_serve(least_gpus(job), models)
            for rule in lending.borrow_rules
        )

    def _renewed_at(self, job: Job) -> tuple[float, ...]:
        """Return when the used-up budgets of a job's tenant, and of its user there, are renewed."""
        limits = (self._facts.tenants.get(job.tenant), self._facts.limits_of(job))
        return tuple([each.budget_renewed_at or 0.0 for each in limits if each is not None])

    def _may_be_considered(self, job: Job) -> bool:
        """Return whether a job may be considered; else record all reasons, or the end of its allocation."""
        current = self._facts.current.get(job.id)
        if current is None:
            never = self._never_fits(job)
            borrows = not job.guaranteed or job.id in self.outgrown
            reasons = _hold(job, self._facts, never, borrows=borrows)
            if reasons:
                self.held_back[job.id] = reasons
                for instant in (job.eligible_at, job.may_borrow_at, *self._renewed_at(job)):
                    if instant > self._facts.frame.now:
                        self._alarms.put(instant, job.id)
                if self._begins_later(job):
                    self._begins.put(job.eligible_at, job.id)
            return not reasons
        now = self._facts.frame.now
        ending = _ending(job, current, now)
        if ending is not None and not current.is_nominated and self._others_run_on(job, current):
            self.partings[job.id] = ending
        elif ending is not None:
            self.endings[current.allocation] = ending
            self._facts.changed_allocations.add(current.allocation)
        elif job.time_limit_seconds is not None and current.phase == "held":
            self._alarms.put(current.since_of(job.id) + job.time_limit_seconds, job.id)
        self._note_return(job, current)
        if self._facts.frame.reservations:
            self._note_reserved(job, current)
        if current.allocation in self.giving_way and current.allocation not in self.endings:
            self.endings[current.allocation] = "preempted", self.giving_way[current.allocation]
            self._facts.changed_allocations.add(current.allocation)
        return current.allocation not in self.endings

    def _others_run_on(self, job: Job, current: Running) -> bool:
        """Return whether a job that shares its GPUs need not end now."""
        others = [self._facts.jobs[other] for other in current.jobs if other != job.id]
        return any([_ending(other, current, self._facts.frame.now) is None for other in others])

    def _note_return(self, job: Job, current: Running) -> None:
        """End a job's allocation when one of its nodes returns to its serving pool.

        A gang that can continue with its other replicas shrinks instead (`diff`).
        """
        node = self._facts.returning_under(current)
        if node is None or current.is_nominated or current.allocation in self.endings:
            return
        stops_at = stop_instant(node)
        if stops_at > self._facts.frame.now:
            self._alarms.put(stops_at, job.id)
        elif self._facts.left_by_return(current) is None:
            self.endings[current.allocation] = "drained", f"{returns(node)}: the job is queued again."
            self._facts.changed_allocations.add(current.allocation)

    def _note_reserved(self, job: Job, current: Running) -> None:
        """End a job's allocation if it is on nodes that are now reserved for others."""
        if current.allocation in self.endings:
            return
        known = [self._facts.jobs[each] for each in current.jobs if each in self._facts.jobs]
        reservation = stopped_by(known, current, self._facts)
        if reservation is not None:
            message = f"A node of it is {described(reservation)}: the job is queued again."
            self.endings[current.allocation] = "preempted", message
            self._facts.changed_allocations.add(current.allocation)


def is_due(due_at: float | None, now: float) -> bool:
    """Whether that instant has come."""
    return due_at is not None and due_at <= now + INSTANT_SECONDS


def _after_loans(facts: Facts) -> Feasibility | None:
    lending = facts.frame.lending
    if lending is None or not lending.loans:
        return None
    own = own_of(lending, facts.frame.cells)
    clusters = {
        name: replace(vc, guaranteed=own.gpus.get(name, {})) for name, vc in facts.virtual_clusters.items()
    }
    return Feasibility(facts.cluster, facts.tenants, clusters, own.layout)


def _ending(job: Job, running: Running, now: float) -> tuple[str, str] | None:
    """Return the cause and the sentence if the job's allocation must end now, or None."""
    if job.cancelling:
        return "cancelled", "It was cancelled."
    limit = job.time_limit_seconds
    if limit is None or running.is_nominated or now < running.since_of(job.id) + limit:
        return None
    return "time_limit", f"It reached its time limit of {wording.duration(limit)}."


def begins_later(job: Job, now: float) -> bool:
    """Return whether a job's specification lets it start only later.

    Once the job has started, the instant is that of a back-off.
    """
    return job.eligible_at > now and not job.attempts


def _too_early(job: Job) -> Reason:
    """Return the reason that states when a job is considered: by its specification, or after a failure."""
    at, blocking = wording.instant(job.eligible_at), {"eligible_at": job.eligible_at}
    if job.attempts:
        message = f"It failed before and is tried again at {at}."
        return Reason(code="backoff", tier=Tier.HELD, message=message, blocking=blocking)
    return Reason(
        code="begins_later",
        tier=Tier.HELD,
        message=f"It begins at {at}.",
        blocking=blocking,
        hint="Change its begin to let it be considered at once.",
    )


def _hold(job: Job, facts: Facts, never: Reason | None, *, borrows: bool) -> tuple[Reason, ...]:
    """Return every reason not to consider a job that does not run.

    `never` is why it can never run; `borrows` is whether it would run on GPUs that are not guaranteed to it.
    """
    reasons = []
    if never is not None:
        reasons.append(never)
    if job.cancelling:
        reasons.append(Reason(code="cancelling", tier=Tier.HELD, message="It is being cancelled."))
    if job.held:
        reasons.append(
            Reason(
                code="held",
                tier=Tier.HELD,
                message="It was put on hold.",
                hint="Release it to let it be considered.",
            )
        )
    if job.awaits:
        reasons.extend(awaiting(job.awaits))
    if job.eligible_at > facts.frame.now:
        reasons.append(_too_early(job))
    if facts.frame.reservations and (later := not_begun(job, facts)):
        reasons.append(later)
    if borrows and job.may_borrow_at > facts.frame.now:
        times = "once" if job.short_runs == 1 else f"{job.short_runs} times in a row"
        reasons.append(
            Reason(
                code="preempted_early",
                tier=Tier.HELD,
                message=f"It was preempted {times} before the minimum run time of its virtual"
                f" cluster. It may borrow GPUs again at {wording.instant(job.may_borrow_at)}.",
                blocking={"may_borrow_at": job.may_borrow_at},
                hint="As a guaranteed job, it would start at once where its virtual cluster has free GPUs.",
            )
        )
    tenant = facts.tenants.get(job.tenant)
    if tenant is not None and (tenant.budget_spent or tenant.users):
        reasons.extend(_budgets_spent(job, tenant, facts))
    if job.id in facts.stopping:
        reasons.append(
            Reason(
                code="stopping",
                tier=Tier.PREPARING,
                message="Its previous attempt is still stopping; it can start again once that has ended.",
                blocking={"allocations": [facts.stopping[job.id].allocation]},
            )
        )
    return tuple(reasons)


def _budgets_spent(job: Job, tenant: Tenant, facts: Facts) -> Iterator[Reason]:
    now, limits = facts.frame.now, facts.limits_of(job)
    if tenant.has_spent(now):
        until = tenant.budget_renewed_at
        yield Reason(
            code="budget_spent",
            tier=Tier.QUOTA,
            message=f"Tenant {tenant.name} has used up its budget: none of its jobs starts{_until(until)}.",
            blocking={"tenant": tenant.name, "renewed_at": until},
            hint="Running jobs continue. An operator may enlarge the budget.",
        )
    if limits is not None and limits.has_spent(now):
        until = limits.budget_renewed_at
        yield Reason(
            code="user_budget_spent",
            tier=Tier.QUOTA,
            message=f"User {job.user} has used up the budget that tenant {tenant.name} gives: none of the"
            f" user's jobs there starts{_until(until)}.",
            blocking={"tenant": tenant.name, "user": job.user, "renewed_at": until},
            hint="Running jobs continue. An admin of the tenant may enlarge the user's budget.",
        )


def _until(instant: float | None) -> str:
    return "" if instant is None else f" until {wording.instant(instant)}"
