"""Step 5, diff: the actions that lead from what runs to what was decided.

Preemption, migration and resizing are read off here, so no policy spends a line on them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from scheduler.core.lending.in_force import active
from scheduler.core.lending.lots import gpus_of, words_of
from scheduler.core.model import wording
from scheduler.core.model.plan import Action, ActionKind, Mode, Placement
from scheduler.core.model.snapshot import AllocationId, GpuId, Job, JobId, Running
from scheduler.core.round.admit import Admission
from scheduler.core.round.facts import Facts
from scheduler.core.round.preemption_limits.downgrading import Downgrade, stops_with_its_guarantee
from scheduler.core.round.run_view import ViewOutcome
from scheduler.core.serving_pools.returning import returns

_RUNS_ON = "it runs on as opportunistic."


def diff(
    facts: Facts,
    admission: Admission,
    orphaned: Collection[AllocationId],
    outcomes: Sequence[ViewOutcome],
    downgraded: Mapping[AllocationId, Downgrade],
    growth: Sequence[Action] = (),
) -> tuple[Action, ...]:
    """Return the actions of the round.

    First come new placements, view by view; then jobs that stop without a new place; then jobs whose
    guarantee lapses or returns where they stay; last, jobs that join running jobs, or leave them. All other
    jobs stay as they are, including jobs whose virtual cluster was deleted: no view of this round decides
    about them. `growth` has the gangs that get idle GPUs beyond their guarantee.
    """
    placed = [action for outcome in outcomes for action in _placed(facts, outcome)]
    takers = _takers(placed)
    leaving = {held.running.allocation for held in outcomes[-1].capacity.dropped if held.running is not None}
    reclaimed = {AllocationId(-each) for each in leaving if each < 0}
    leaving = {each for each in leaving if each > 0}
    # A gang cannot restart on only its guaranteed GPUs where some of these no longer take work.
    leaving.update(
        [each for each in reclaimed if not all(map(facts.is_usable, facts.running[each].base.gpus))]
    )
    leaving.update(admission.endings, facts.stale, orphaned)
    leaving.difference_update([action.allocation for action in placed if action.allocation is not None])
    stops = []
    for allocation in sorted(leaving):
        running = facts.running[allocation]
        job = facts.jobs.get(running.jobs[0])
        if job is not None:
            words = _words_for(job.id, outcomes)
            stops.append(_stop(running, job, facts, admission, takers, placed, words))
    acted = leaving.union(action.allocation for action in placed)
    shrunk = [_shrunk(facts.running[each], facts, takers) for each in sorted(reclaimed - acted)]
    acted.update(action.allocation for action in (*shrunk, *growth))
    regrades = [_regrade(facts.running[each], facts) for each in sorted(facts.regraded) if each not in acted]
    regrades += [_downgraded(downgraded[each], facts) for each in sorted(downgraded) if each not in acted]
    returned = (
        _shrunk_by_returns(facts, acted.union(downgraded), [*placed, *growth]) if facts.returning else []
    )
    resized = {action.allocation for action in returned}
    regrades = [action for action in regrades if action.allocation not in resized]
    changes = [_with_cause(action, facts, takers) for action in placed]
    lapsed = [action for action in regrades if action.kind is ActionKind.STOP]
    whole = {action.allocation for action in (*changes, *shrunk, *growth, *returned, *stops, *lapsed)}
    beside = [
        action
        for action in (*_joins(facts, outcomes), *_partings(facts, admission, outcomes))
        if action.allocation not in whole
    ]
    return (*changes, *shrunk, *growth, *returned, *stops, *regrades, *beside)


def _joins(facts: Facts, outcomes: Sequence[ViewOutcome]) -> Iterable[Action]:
    for outcome in outcomes:
        for allocation, guests in outcome.joins.items():
            running = facts.running[allocation]
            yield Action(
                kind=ActionKind.JOIN,
                jobs=guests,
                virtual_cluster=facts.jobs[guests[0]].virtual_cluster,
                guaranteed=facts.is_guaranteed(running),
                placement=Placement(gpu_model=running.gpu_model, replicas=running.replicas),
                allocation=allocation,
            )


def _partings(facts: Facts, admission: Admission, outcomes: Sequence[ViewOutcome]) -> Iterable[Action]:
    """Yield the stops of jobs while others keep their GPUs: first required ones, then those of policies."""
    words: dict[JobId, tuple[str, str]] = {}
    for outcome in outcomes:
        leaving = outcome.decision.leaves.keys() | admission.partings.keys()
        for job, why in outcome.decision.leaves.items():
            # If no job would be left, the policy's stops wait until the required ones are done.
            if not leaving.issuperset(facts.current[job].jobs):
                words[job] = "preempted", why
    together: dict[tuple[AllocationId, str, str], list[JobId]] = {}
    for job, (cause, why) in sorted({**words, **admission.partings}.items()):
        together.setdefault((facts.current[job].allocation, cause, why), []).append(job)
    for (allocation, cause, why), jobs in sorted(together.items()):
        running = facts.running[allocation]
        yield Action(
            kind=ActionKind.STOP,
            jobs=tuple(jobs),
            virtual_cluster=facts.jobs[jobs[0]].virtual_cluster,
            guaranteed=facts.is_guaranteed(running),
            allocation=allocation,
            cause=cause,
            message=why,
        )


def _shrunk_by_returns(
    facts: Facts, acted: Collection[AllocationId | None], placed: Sequence[Action]
) -> list[Action]:
    """Return the resizes of gangs that stay, but lose workers on nodes that return to their serving pools."""
    actions: list[Action] = []
    for allocation, running in sorted(facts.running.items()):
        node = facts.returning_under(running)
        left = (
            None
            if node is None or allocation in acted
            else facts.left_by_return(running, [*placed, *actions])
        )
        if node is not None and left is not None:
            actions.append(
                Action(
                    kind=ActionKind.RESIZE,
                    jobs=running.jobs,
                    virtual_cluster=facts.jobs[running.jobs[0]].virtual_cluster,
                    guaranteed=facts.is_guaranteed(running),
                    placement=Placement(gpu_model=running.gpu_model, replicas=left),
                    opportunistic_gpus=max(sum(map(len, left)) - len(running.base.gpus), 0)
                    if running.opportunistic_gpus
                    else 0,
                    allocation=allocation,
                    message=f"{returns(node)}.",
                )
            )
    return actions


def _placed(facts: Facts, outcome: ViewOutcome) -> Iterable[Action]:
    for position, placement in outcome.placements.items():
        grant = outcome.decision.grants[position]
        before = {running.allocation: running for job in grant.jobs if (running := facts.current.get(job))}
        running = next(iter(before.values()), None)
        if running is None:
            kind = ActionKind.START
        elif running.jobs != grant.jobs:
            continue  # A group in which jobs join or leave stops first, and starts in a later round.
        elif _is_there(running, placement) and facts.is_live(running):
            continue
        else:
            same_size = len(running.gpus) == len(placement.gpus)
            kind = ActionKind.MOVE if same_size else ActionKind.RESIZE
        yield Action(
            kind=kind,
            jobs=grant.jobs,
            virtual_cluster=outcome.view.jobs[grant.jobs[0]].virtual_cluster,
            guaranteed=outcome.view.guaranteed,
            placement=placement,
            slice_seconds=grant.slice_seconds if grant.mode is Mode.TIME_SLICE else None,
            allocation=None if running is None else running.allocation,
            hints=grant.hints,
        )


def _is_there(running: Running, placement: Placement) -> bool:
    return running.base.replicas == placement.replicas and running.nodes == placement.nodes


def _shrunk(running: Running, facts: Facts, takers: Mapping[GpuId, Action]) -> Action:
    """Shrink a gang to the GPUs within its guarantee."""
    surplus = running.surplus
    assert surplus is not None
    by, message = _claimed(surplus, takers)
    whose = message.removesuffix(".") if by else "Jobs that wait are to have what it has beyond its guarantee"
    return Action(
        kind=ActionKind.RESIZE,
        jobs=running.jobs,
        virtual_cluster=facts.jobs[running.jobs[0]].virtual_cluster,
        guaranteed=facts.is_guaranteed(running),
        placement=Placement(gpu_model=running.gpu_model, replicas=running.base.replicas),
        allocation=running.allocation,
        preempted_by=by,
        message=f"{whose}: it continues with its guaranteed GPUs.",
    )


def _takers(actions: Iterable[Action]) -> dict[GpuId, Action]:
    """Return the action that newly takes each GPU."""
    return {
        gpu: action for action in actions if action.placement is not None for gpu in action.placement.gpus
    }


def _with_cause(action: Action, facts: Facts, takers: Mapping[GpuId, Action]) -> Action:
    """Add to the action of a victim which job took its place."""
    if action.kind is not ActionKind.MOVE:
        return action
    by, message = _claimed(facts.current[action.jobs[0]], takers)
    return replace(action, cause="preempted", preempted_by=by, message=message) if by else action


def _words_for(job: JobId, outcomes: Sequence[ViewOutcome]) -> str:
    """Return why a policy makes a job wait now; empty if no policy states a reason."""
    said = [outcome.decision.reasons.get(job, ()) for outcome in outcomes]
    return next((reasons[0].message for reasons in said if reasons), "")


def _stop(
    running: Running,
    job: Job,
    facts: Facts,
    admission: Admission,
    takers: Mapping[GpuId, Action],
    placed: Sequence[Action],
    words: str,
) -> Action:
    by: tuple[JobId, ...] = ()
    if running.allocation in admission.endings:
        cause, message = admission.endings[running.allocation]
    elif running.allocation in facts.stale:
        cause, message = "preempted", "The GPUs that were reserved for it are no longer available."
    else:
        cause = "preempted"
        by, message = _claimed(running, takers)
        if not by and not facts.is_guaranteed(running):
            by, message = _crowded_out(running, facts, placed)
        message = message or words or "The policy gave it no GPUs in this round."
    return Action(
        kind=ActionKind.STOP,
        jobs=running.jobs,
        virtual_cluster=job.virtual_cluster,
        guaranteed=facts.is_guaranteed(running),
        allocation=running.allocation,
        cause=cause,
        preempted_by=by,
        message=message,
    )


def _claimed(running: Running, takers: Mapping[GpuId, Action]) -> tuple[tuple[JobId, ...], str]:
    """Return the jobs that took GPUs of this allocation, and the sentence for the victim."""
    taken = [takers[gpu] for gpu in running.gpus if gpu in takers and takers[gpu].jobs != running.jobs]
    if not taken:
        return (), ""
    by, whose = _named(taken)
    if len(running.gpus) == 1:
        return by, f"Its GPU was reclaimed by {whose}."
    were = "was" if len(taken) == 1 else "were"
    return by, f"{len(taken)} of its {wording.gpus(len(running.gpus))} {were} reclaimed by {whose}."


def _crowded_out(running: Running, facts: Facts, placed: Sequence[Action]) -> tuple[tuple[JobId, ...], str]:
    """Return the same where other jobs took not its GPUs but CPUs or memory of its nodes."""
    nodes = facts.places_of(running)
    taken = [
        action
        for action in placed
        if action.guaranteed and action.placement is not None
        if not nodes.isdisjoint(facts.places_of(action.placement))
    ]
    if not taken:
        return (), ""
    by, whose = _named(taken)
    return by, f"The CPUs or memory of its node were reclaimed by {whose}."


def _named(takers: Sequence[Action]) -> tuple[tuple[JobId, ...], str]:
    """Return the jobs of actions, and a name for them."""
    by = tuple(dict.fromkeys([job for action in takers for job in action.jobs]))
    clusters = wording.listed(sorted({action.virtual_cluster for action in takers}))
    kind = "guaranteed " if all(action.guaranteed for action in takers) else ""
    return by, f"{kind}{wording.jobs(by)} of virtual cluster {clusters}"


def _regrade(running: Running, facts: Facts) -> Action:
    vc = facts.jobs[running.jobs[0]].virtual_cluster
    guaranteed = facts.regraded[running.allocation]
    kind, model = ActionKind.REGRADE, running.gpu_model
    if guaranteed:
        cause, message = _returned(vc, model, facts)
    elif stops_with_its_guarantee(running, facts):
        kind, cause = ActionKind.STOP, "preempted"
        message = f"{_lapsed(vc, model, facts)[1]}: it stops, as it asks for with on_reclaim."
    else:
        cause, message = _lapsed(vc, model, facts)
        message = f"{message}: {_RUNS_ON}"
    return Action(
        kind=kind,
        jobs=running.jobs,
        virtual_cluster=vc,
        guaranteed=guaranteed,
        allocation=running.allocation,
        cause=cause,
        message=message,
    )


def _downgraded(downgrade: Downgrade, facts: Facts) -> Action:
    running = downgrade.running
    vc = facts.jobs[running.jobs[0]].virtual_cluster
    whom = wording.jobs(downgrade.to) if downgrade.to else "others"
    return Action(
        kind=ActionKind.REGRADE,
        jobs=running.jobs,
        virtual_cluster=vc,
        guaranteed=False,
        allocation=running.allocation,
        cause="downgraded",
        message=f"Virtual cluster {vc} gives what is guaranteed to it to {whom}: {_RUNS_ON}",
    )


def _returned(vc: str, model: str, facts: Facts) -> tuple[str, str]:
    """Return the cause of a guarantee's return, and the sentence for the job."""
    if facts.is_divided(model):
        return "cells_back", f"Virtual cluster {vc} has a cell again where it runs: it is guaranteed."
    return (
        "guarantee_back",
        f"The {model} guaranteed to virtual cluster {vc} suffice again: it is guaranteed.",
    )


def _lapsed(vc: str, model: str, facts: Facts) -> tuple[str, str]:
    """Return the same for its lapse, without the consequence for the job."""
    lending = facts.frame.lending
    if lending is not None:
        for loan in lending.ended:
            lot = loan.got_by(vc)
            if lot is not None and model in gpus_of(lot, facts.layout):
                what = f"{words_of(lot)} from {loan.other(vc)} to virtual cluster {vc}"
                return "loan_ended", f"The loan of {what} has ended"
        for loan in active(lending.loans, facts.frame.now):
            lot = loan.given_by(vc)
            if lot is not None and model in gpus_of(lot, facts.layout):
                what = f"{words_of(lot)} to {loan.other(vc)} until {wording.instant(loan.ends_at)}"
                return "lent", f"Virtual cluster {vc} lends {what}"
    if facts.is_divided(model):
        return "cells_lost", f"Virtual cluster {vc} has no cell where it runs"
    left = facts.virtual_clusters[vc].guaranteed.get(model, 0)
    return (
        "guarantee_lowered",
        f"Virtual cluster {vc} is guaranteed {wording.gpus(left, [model])} now, fewer than its guaranteed"
        " jobs hold",
    )
