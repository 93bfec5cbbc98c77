"""Step 1, admit: which jobs may be considered at all this round; everyone else is told why not.

Jobs that run are always admitted, unless they are being cancelled or have used up their time. A tenant's
quota is handed out to its jobs in a fixed order (those that run, then by priority and age), before any
policy sees them: so no policy needs to know of quotas, and a small job cannot push a large one of the
same tenant back for ever.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from heapq import heappop, heappush

from scheduler.core.building_blocks.service import INSTANT_SECONDS
from scheduler.core.fitting.candidates import models_on_candidates
from scheduler.core.fitting.demand import least_amount, least_gpus, models_of
from scheduler.core.fitting.feasible import UNLIMITED, Feasibility
from scheduler.core.lending.in_force import own_of
from scheduler.core.model import wording
from scheduler.core.model.plan import Reason, Tier
from scheduler.core.model.snapshot import AllocationId, Job, JobId, Running, Tenant, VirtualCluster
from scheduler.core.round.array_limits import ArrayLimits, no_place
from scheduler.core.round.awaiting import awaiting
from scheduler.core.round.facts import Facts
from scheduler.core.round.idle_now import IdleNow
from scheduler.core.serving_pools.returning import returns, stop_instant

#: The key of Tenant.quota that caps all models together.
ALL_MODELS = "*"

#: Codes of jobs that are larger than what their virtual cluster is guaranteed.
TOO_LARGE = ("exceeds_guarantee", "exceeds_cells")


class Admission:
    """Who may be considered, who may not and why, and which allocations end whatever is decided."""

    def __init__(self, facts: Facts, only_starts: Callable[[VirtualCluster], bool] | None = None) -> None:
        """`only_starts`: whether the policy of a virtual cluster never makes room among its own jobs."""
        self._facts = facts
        self._only_starts = only_starts or (lambda _: False)
        #: By virtual cluster, of those that were asked about in this round.
        self._makes_room: dict[str, bool] = {}
        self._feasibility = Feasibility(facts.cluster, facts.tenants, facts.virtual_clusters, facts.layout)
        #: What could never run once all that is lent is its owners' again; None: nothing is lent.
        self._after_loans = _after_loans(facts)
        #: Jobs whose processes are being ended while they count on their tenant's quota, with the tenant.
        self._ending_of: dict[JobId, str] = {}
        #: Jobs to look at again at an instant, though nothing happens to them: (instant, job).
        self._alarms: list[tuple[float, JobId]] = []
        #: Of jobs that begin at an instant: (instant, job), as above.
        self._begins: list[tuple[float, JobId]] = []
        #: Tenants whose jobs want more than their quota: who goes first there depends on what is idle.
        self._crowded: set[str] = set()
        #: What is idle as this round begins; None: it was not asked for.
        self._idle_now: IdleNow | None = None
        self._arrays = ArrayLimits(facts)
        self.admitted: dict[JobId, Job] = {}
        self.held_back: dict[JobId, tuple[Reason, ...]] = {}
        #: Jobs that ran as guaranteed ones and are too large for what is guaranteed now, with the reason:
        #: until there is room again they are considered as opportunistic.
        self.outgrown: dict[JobId, Reason] = {}
        #: Allocation -> (cause, sentence for its jobs).
        self.endings: dict[AllocationId, tuple[str, str]] = {}
        #: The same of jobs whose time is up, or that are cancelled, while others have their GPUs and run on.
        self.partings: dict[JobId, tuple[str, str]] = {}

    def refresh(self) -> set[JobId]:
        """Look again at the jobs that changed, or whose time has come; return all that were looked at."""
        facts = self._facts
        self._makes_room.clear()
        while self._alarms and self._alarms[0][0] <= facts.frame.now:
            facts.changed_jobs.add(heappop(self._alarms)[1])
        for allocation in self.endings.keys() & facts.changed_allocations:
            del self.endings[allocation]
        looked_at = set(facts.changed_jobs)
        capped = {
            facts.jobs[job].tenant
            for job in facts.changed_jobs
            if job in facts.jobs and self._quota_of(facts.jobs[job])
        }
        # A job that ended left its tenant more to hand out.
        capped.update(
            job.tenant
            for number in facts.changed_jobs
            if (job := self.admitted.get(number)) and self._quota_of(job)
        )
        # Until then what it held was not to be handed out.
        capped.update(self._ending_of.pop(number) for number in facts.changed_jobs & self._ending_of.keys())
        for tenant in capped | self._crowded:
            looked_at.update(facts.by_tenant.get(tenant, ()))
        # Last, so that whoever is looked at has no place of an array from before.
        looked_at |= self._arrays.siblings(looked_at)
        candidates: dict[str, list[Job]] = {}
        for number in sorted(looked_at):
            self.admitted.pop(number, None)
            self.held_back.pop(number, None)
            self.outgrown.pop(number, None)
            self.partings.pop(number, None)
            if number not in facts.jobs or not self._may_be_considered(facts.jobs[number]):
                continue
            job = facts.jobs[number]
            if self._arrays.has_place(job):
                candidates.setdefault(job.tenant, []).append(job)
            else:
                self.held_back[number] = (no_place(job),)
        self._crowded.clear()
        self._idle_now = None
        for tenant, jobs in candidates.items():
            if _within_quota(self._quota_of(jobs[0]), jobs, facts, self):
                self._crowded.add(tenant)
        return looked_at

    @property
    def wake_at(self) -> float | None:
        """When the next job begins that its user let begin at an instant; None: none does."""
        while self._begins:
            instant, number = self._begins[0]
            job = self._facts.jobs.get(number)
            if job is not None and job.eligible_at == instant and begins_later(job, self._facts.frame.now):
                return instant
            heappop(self._begins)
        return None

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

    def still_held(self, tenant: str) -> dict[str, float]:
        """Return by model what processes of a tenant hold that were told to stop, beyond what their jobs have
        already been promised in its place."""
        facts = self._facts
        found: dict[str, float] = {}
        for number, leaving in facts.stopping.items():
            job = facts.jobs.get(number)
            first = leaving.leaving + (leaving.jobs[:1] if leaving.stopping else ())
            if job is None or job.tenant != tenant or number not in first:
                continue
            self._ending_of[number] = tenant
            gpus, next_one = facts.amount(leaving), facts.current.get(number)
            if next_one is not None and next_one.gpu_model == leaving.gpu_model:
                gpus -= facts.amount(next_one)
            found[leaving.gpu_model] = found.get(leaving.gpu_model, 0) + max(gpus, 0)
        return found

    def _never_fits(self, job: Job) -> Reason | None:
        """Return why the job could never run, or None; note it where only its guarantee is gone."""
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
        """Tell whether its virtual cluster has a rule by which it could borrow what the job needs."""
        lending, models = self._facts.frame.lending, models_of(job, self._facts.cluster)
        return lending is not None and any(
            rule.virtual_cluster == job.virtual_cluster and rule.may_serve(least_gpus(job), models)
            for rule in lending.borrow_rules
        )

    def _quota_of(self, job: Job) -> Mapping[str, int]:
        tenant = self._facts.tenants.get(job.tenant)
        return tenant.quota if tenant else {}

    def _renewed_at(self, job: Job) -> float:
        """Return when a job's tenant has a new budget; 0 when that holds nothing back."""
        tenant = self._facts.tenants.get(job.tenant)
        return (tenant.budget_renewed_at or 0.0) if tenant else 0.0

    def _may_be_considered(self, job: Job) -> bool:
        """Hold the job back with all reasons, or note that what it has must end; else return True."""
        current = self._facts.current.get(job.id)
        if current is None:
            never = self._never_fits(job)
            borrows = not job.guaranteed or job.id in self.outgrown
            reasons = _hold(job, self._facts, never, borrows=borrows)
            if reasons:
                self.held_back[job.id] = reasons
                for instant in (job.eligible_at, job.may_borrow_at, self._renewed_at(job)):
                    if instant > self._facts.frame.now:
                        heappush(self._alarms, (instant, job.id))
                if begins_later(job, self._facts.frame.now):
                    heappush(self._begins, (job.eligible_at, job.id))
            return not reasons
        now = self._facts.frame.now
        ending = _ending(job, current, now)
        if ending is not None and not current.is_nominated and self._others_run_on(job, current):
            self.partings[job.id] = ending
        elif ending is not None:
            self.endings[current.allocation] = ending
            self._facts.changed_allocations.add(current.allocation)
        elif job.time_limit_seconds is not None and current.phase == "held":
            heappush(self._alarms, (current.since_of(job.id) + job.time_limit_seconds, job.id))
        self._note_return(job, current)
        return current.allocation not in self.endings

    def _others_run_on(self, job: Job, current: Running) -> bool:
        """Whether some of those that a job shares its GPUs with need not end now."""
        others = [self._facts.jobs[other] for other in current.jobs if other != job.id]
        return any([_ending(other, current, self._facts.frame.now) is None for other in others])

    def _note_return(self, job: Job, current: Running) -> None:
        """Let what a job has end when a node under it has to be left for its serving pool, unless the gang
        can do with what it has elsewhere: then it shrinks (`diff`)."""
        node = self._facts.returning_under(current)
        if node is None or current.is_nominated or current.allocation in self.endings:
            return
        stops_at = stop_instant(node)
        if stops_at > self._facts.frame.now:
            heappush(self._alarms, (stops_at, job.id))
        elif self._facts.left_by_return(current) is None:
            self.endings[current.allocation] = "drained", f"{returns(node)}: the job is queued again."
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
    """Return the cause and the sentence when what the job holds must end now."""
    if job.cancelling:
        return "cancelled", "It was cancelled."
    limit = job.time_limit_seconds
    if limit is None or running.is_nominated or now < running.since_of(job.id) + limit:
        return None
    return "time_limit", f"It reached its time limit of {wording.duration(limit)}."


def begins_later(job: Job, now: float) -> bool:
    """Whether its specification lets a job start later only; once started the instant is back-off."""
    return job.eligible_at > now and not job.attempts


def _too_early(job: Job) -> Reason:
    """Say from when on a job is considered: by its specification, or again after a failure."""
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
    """Return every reason not to consider a job that does not run; `never`: that it can never run at all.

    `borrows`: it would run on GPUs that nobody guarantees it.
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
    if (tenant := facts.tenants.get(job.tenant)) and tenant.has_spent(facts.frame.now):
        reasons.append(_budget_spent(tenant))
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


def _budget_spent(tenant: Tenant) -> Reason:
    until = tenant.budget_renewed_at
    when = "" if until is None else f" until {wording.instant(until)}"
    return Reason(
        code="budget_spent",
        tier=Tier.QUOTA,
        message=f"Tenant {tenant.name} has used up its budget: none of its jobs starts{when}.",
        blocking={"tenant": tenant.name, "renewed_at": until},
        hint="Running jobs continue. An operator may enlarge the budget.",
    )


def _within_quota(quota: Mapping[str, int], jobs: list[Job], facts: Facts, admission: Admission) -> bool:
    """Admit a tenant's jobs, in order, as far as its quota goes; return whether they want more than that.

    Those that run come first. Jobs for which there are no GPUs now come last: they keep their tenant's quota
    from no job that can start. A guaranteed job keeps its place where its policy may make room for it, and so
    does every job that has waited for longer than its virtual cluster allows.

    Which model a waiting job will get is not known yet, so it counts against every model it may still
    use. That can hold back a later job for a round or more; it can never overrun a quota. What is being
    stopped counts until its processes are gone.
    """
    still_held = admission.still_held(jobs[0].tenant) if quota else {}
    most = sum([job.elastic[1] if job.elastic else least_amount(job) for job in jobs])
    most += sum(still_held.values())
    if not quota or most <= min(quota.values()):
        admission.admitted.update([(job.id, job) for job in jobs])
        return False
    left: dict[str, float] = {**quota}
    for model, gpus in still_held.items():
        for line in (model, ALL_MODELS):
            if line in left:
                left[line] -= gpus

    def room(model: str) -> float:
        return min(left.get(model, UNLIMITED), left.get(ALL_MODELS, UNLIMITED))

    _put_in_order(jobs, facts, admission)
    elastic: list[JobId] = []
    for job in jobs:
        running = facts.current.get(job.id)
        if running is None:
            least = least_amount(job)
            accepted = models_of(job, facts.cluster)
            on_its_nodes = models_on_candidates(job, facts.cluster)
            models = tuple([model for model in on_its_nodes if room(model) >= least])
            if not models:
                admission.held_back[job.id] = (_over_quota(job, least, quota, left),)
                continue
            narrows = models != accepted
        else:
            least, models = facts.amount(running), (running.gpu_model,)
            # It counts on the model that it has: if it must move, it moves to the same.
            narrows = quota.keys() != {ALL_MODELS}
        if job.elastic is not None:
            job = replace(job, elastic=(min(job.elastic[0], int(least)), int(least)))
            elastic.append(job.id)
        if narrows:
            job = replace(job, gpu_models=models)
        admission.admitted[job.id] = job
        for line in (*models, ALL_MODELS):
            if line in left:
                left[line] = round(left[line] - least, 3)
    _share_rest(
        left, elastic, facts, admission, is_crowded=any(job.id in admission.held_back for job in jobs)
    )
    return True


def _put_in_order(jobs: list[Job], facts: Facts, admission: Admission) -> None:
    """Sort a tenant's jobs as its quota is dealt out."""

    def place(job: Job) -> tuple[bool, bool, int, float, JobId]:
        waits = job.id not in facts.current
        keeps = not waits or admission.may_make_room(job) or admission.is_due(job)
        lacks = not keeps and not admission.idle_now.are_enough_for(job)
        return waits, lacks, -job.priority, job.submitted_at, job.id

    jobs.sort(key=place)


def _share_rest(
    left: dict[str, float], elastic: list[JobId], facts: Facts, admission: Admission, *, is_crowded: bool
) -> None:
    """Let elastic gangs be larger than they must as far as their tenant's quota is left: all up to their own
    size, and then beyond it.

    Where some of its jobs are held back by the quota, nothing that runs grows into it, and what a gang has
    beyond its own size is for those: a policy that resizes takes it back, and under any other it stays.
    """
    for beyond_own_size in (False, True):
        for name in elastic:
            job, declared, running = (
                admission.admitted[name],
                facts.jobs[name].elastic,
                facts.current.get(name),
            )
            assert job.elastic is not None
            assert declared is not None
            least, most = job.elastic
            if is_crowded and (beyond_own_size or running is not None):
                most = max(least, min(most, job.gpus)) if beyond_own_size else most
            else:
                target = declared[1] if beyond_own_size else min(declared[1], job.gpus)
                models = models_of(job, facts.cluster) if running is None else (running.gpu_model,)
                lines = (*models, ALL_MODELS)
                extra = int(max(0, min(target - most, *[left.get(line, UNLIMITED) for line in lines])))
                extra -= extra % job.tasks[0].gpus  # Whole replicas only.
                most += extra
                for line in lines:
                    if line in left:
                        left[line] -= extra
            admission.admitted[name] = replace(job, elastic=(least, most))


def _over_quota(job: Job, gpus: float, quota: Mapping[str, int], left: Mapping[str, float]) -> Reason:
    lines = [line for line in sorted(quota) if line in (ALL_MODELS, *(job.gpu_models or quota))]
    tightest = min(lines, key=lambda line: left[line])
    cap = wording.gpus(quota[tightest], () if tightest == ALL_MODELS else [tightest])
    available = max(int(left[tightest]), 0)
    held = round(quota[tightest] - left[tightest], 3)
    return Reason(
        code="quota",
        tier=Tier.QUOTA,
        message=f"Tenant {job.tenant} has a quota of {cap}; {held:g} are used"
        f" by its jobs or reserved for jobs ahead, and this job needs {gpus:g}.",
        blocking={"tenant": job.tenant, "quota": {tightest: quota[tightest]}},
        needed=math.ceil(gpus),
        available=available,
        hint="It is considered as soon as other jobs of the tenant end, or an operator raises the quota.",
    )
