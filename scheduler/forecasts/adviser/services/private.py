"""Each virtual cluster's private cluster beside the live one: the jobs of the last hours, run there again."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from scheduler.core.model.snapshot import Job, JobId, Snapshot
from scheduler.core.round.guarantees.reliance import owned
from scheduler.core.sim.anomalies import cause_of, compare, private_run, waits_in
from scheduler.core.sim.delays import Comparison, Evidence
from scheduler.core.sim.engine import Engine
from scheduler.core.sim.private import private_cluster
from scheduler.core.sim.workload import Arrival, Truth
from scheduler.forecasts.adviser.services.past import PastJob, read_past
from scheduler.forecasts.services.facts import known_run_times
from scheduler.models.events import Event
from scheduler.rounds.snapshot import read_snapshot

#: The newest jobs of the hours asked for; older ones are left out.
MOST_JOBS = 3_000
#: A job counts as late beyond this many rounds and seconds: agents and clocks are not exact.
TOLERANCE_ROUNDS = 2
TOLERANCE_SECONDS = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonRun:
    """The comparison of a virtual cluster between two instants, and what its jobs are called."""

    comparison: Comparison
    names: Mapping[JobId, str]
    since: float
    until: float
    #: Older jobs were left out.
    is_cut: bool


@dataclass(frozen=True, slots=True)
class _Cancellation:
    """A job's user gives up waiting."""

    at: float
    job: JobId

    def happen(self, engine: Engine) -> None:
        engine.cancel(self.job)


def compare_with_private(virtual_cluster: str, *, hours: float) -> ComparisonRun:
    """Run a virtual cluster's guaranteed jobs of the last hours in its private cluster, and compare.

    Jobs that were there before run or wait there from the beginning, and are not compared; nor are those that
    were put on hold.
    """
    # A private cluster is what a virtual cluster owns, whatever it lends and borrows at the moment.
    now = owned(read_snapshot(0))
    until, since = now.now, now.now - hours * 3_600.0
    past = read_past(since=since, until=until, most=MOST_JOBS, virtual_cluster=virtual_cluster)
    is_cut = len(past) == MOST_JOBS
    if is_cut:
        since = max(since, past[0].job.submitted_at)
    engine = _privately(replace(now, now=since, running=(), memory={}), virtual_cluster, past, until)
    tolerance = TOLERANCE_ROUNDS * now.round_seconds + TOLERANCE_SECONDS
    compared = compare(
        virtual_cluster,
        [each.job for each in past if each.job.submitted_at >= since and not each.was_held],
        {each.job.id: each.waited(until) for each in past},
        waits_in(engine, until),
        until=until,
        tolerance_seconds=tolerance,
    )
    names = {each.job.id: each.name for each in past}
    return ComparisonRun(comparison=compared, names=names, since=since, until=until, is_cut=is_cut)


def _privately(frame: Snapshot, vc: str, past: Sequence[PastJob], until: float) -> Engine:
    """Run the jobs of the past; `frame` is the cluster at the beginning."""
    since, run_times = frame.now, known_run_times()
    there: list[Job] = []
    running, truths, arrivals, script = [], {}, [], []
    for each in past:
        job, began_at = each.job_at(since), max(since, each.job.submitted_at)
        if each.was_held and each.job.submitted_at >= since:
            # It arrives at its first start, since it was on hold or waited for other jobs before.
            if each.started_at is None:
                continue
            job, began_at = replace(job, submitted_at=each.started_at), each.started_at
        truth = each.truth(began_at, until, run_times)
        if each.runs:
            truth = Truth(work_seconds=until - since + 1.0)
        if job.submitted_at >= since:
            arrivals.append(Arrival(job=job, truth=truth))
        else:
            there.append(job)
            truths[job.id] = truth
            stay = each.running_at(since)
            if stay is not None:
                running.append(stay)
        if each.ended_at is not None and not each.stays:
            script.append(_Cancellation(each.ended_at, job.id))
    facts = replace(frame, jobs=tuple(there), running=tuple(running))
    return private_run(private_cluster(facts, vc), vc, arrivals, truths=truths, script=script, until=until)


def evidence_for(comparison: Comparison, most: int) -> dict[JobId, Evidence]:
    """Find the reasons that the worst of the late jobs had when their private cluster would have started
    them.
    """
    late = {anomaly.delay.job: anomaly.delay for anomaly in comparison.anomalies[:most]}
    events_of: dict[JobId, list[Event]] = {job: [] for job in late}
    for event in Event.objects.filter(job_id__in=list(late), kind="job.waiting").order_by("id"):
        events_of[JobId(event.job_id or 0)].append(event)
    found = {}
    for job, events in events_of.items():
        due = late[job].submitted_at + late[job].private_seconds
        # An event for each change of the decisive reason: the last one before holds until the next.
        before = [event for event in events if event.at.timestamp() <= due]
        decisive = before[-1] if before else next(iter(events), None)
        if decisive is not None:
            number = decisive.actor.removeprefix("round ")
            found[job] = Evidence(
                cause=cause_of(decisive.data.get("code", "")),
                message=decisive.message,
                round_number=int(number) if number.isdigit() else None,
            )
    return found
