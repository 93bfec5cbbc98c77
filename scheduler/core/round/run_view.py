"""Steps 3 and 4 for one view: its policy, then its placer; a failure costs only this view."""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import inf

from scheduler.core.building_blocks.computing import Overrun
from scheduler.core.building_blocks.growing import with_growth
from scheduler.core.building_blocks.policy import Placer, PlacerDecision, Policy, Traits, View
from scheduler.core.building_blocks.tagged import place_tagged
from scheduler.core.fitting.capacity import Capacity
from scheduler.core.fitting.demand import Demand, demand_of_grant, models_of
from scheduler.core.model.errors import PolicyError, UnknownPlugin
from scheduler.core.model.gpu_parts import SHARE_NEVER
from scheduler.core.model.plan import Decision, Grant, LedgerLine, Mode, Placement, Reason
from scheduler.core.model.snapshot import AllocationId, JobId, Memory, Running
from scheduler.core.placers.consolidate import Consolidate
from scheduler.core.round.registry import line_in, make_placer, make_policy

#: The policy and placer that serve a view whose own take too long.
CHEAP_POLICY, CHEAP_PLACER = "fifo", "consolidate"
#: The most times that a policy decides in a round, each time without jobs whose tag constraints cannot be
#: met.
MOST_TIMES = 4


@dataclass(frozen=True, kw_only=True)
class Plugins:
    """A view's policy and placer, by name and parameters; made on first use.

    First use raises UnknownPlugin for a wrong name or parameter.
    """

    policy: str
    policy_parameters: Mapping[str, object]
    placer: str
    placer_parameters: Mapping[str, object]

    @cached_property
    def made_policy(self) -> Policy:
        return make_policy(self.policy, self.policy_parameters)

    @cached_property
    def made_placer(self) -> Placer:
        return make_placer(self.placer, self.placer_parameters)


#: These replace plug-ins that take too long.
CHEAP = Plugins(policy=CHEAP_POLICY, policy_parameters={}, placer=CHEAP_PLACER, placer_parameters={})


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewOutcome:
    """A view's decision, and what it leaves of the cluster."""

    view: View
    decision: Decision
    #: By position in the decision's grants.
    placements: Mapping[int, Placement]
    capacity: Capacity
    #: Why the policy or the placer failed; empty if neither did.
    failure: str = ""
    #: Jobs that got cells without available hardware, and why.
    unbound: Mapping[JobId, Reason] = field(default_factory=dict)
    #: Whether the policy took too long, and a cheap one decided in its place.
    overran: bool = False
    #: Jobs that join those of an allocation.
    joins: Mapping[AllocationId, tuple[JobId, ...]] = field(default_factory=dict)

    @property
    def dropped(self) -> list[Running]:
        """The allocations of the view that end, even if the same jobs get others."""
        pending, gone = self.view.capacity.pending, self.capacity.dropped
        running = [(held, held.running) for held in gone if held.running is not None]
        return [each for held, each in running if pending.get(each.jobs) is held]

    @property
    def leaving(self) -> set[JobId]:
        """The jobs of the view that lose their GPUs or nomination."""
        return {job for running in self.dropped for job in running.jobs}.union(self.decision.leaves)

    @property
    def kept(self) -> set[JobId]:
        """The jobs that keep their GPUs or nomination."""
        return self.view.running.keys() - self.leaving


def run_view(view: View, plugins: Plugins, memory: Memory, overran: str = "") -> ViewOutcome:
    """Let the view's policy and placer decide; if they fail, its jobs keep what they have.

    If one of them takes too long, or is known to (`overran` is the reason), idle GPUs are handed out in order
    of submission, and the policy's memory stays unchanged for its next round.
    """
    try:
        if overran:
            raise Overrun(overran)
        decision, placed, capacity = _decided(view, plugins, memory)
        decision = placed.added_to(decision)
        _check_words(decision, view)
    except Overrun as error:
        cheap = run_view(view, CHEAP, memory)
        decision = replace(cheap.decision, memory=memory)
        return replace(cheap, decision=decision, failure=cheap.failure or str(error), overran=True)
    except (PolicyError, UnknownPlugin) as error:
        return standstill(view, memory, str(error))
    except Exception as error:  # Anything else that fails between the two.
        return standstill(view, memory, f"its decision could not be carried out: {error!r}")
    return ViewOutcome(view=view, decision=decision, placements=placed.placements, capacity=capacity)


def _decided(view: View, plugins: Plugins, memory: Memory) -> tuple[Decision, PlacerDecision, Capacity]:
    """Return what the policy and the placer decide, and what that leaves.

    A job whose hard tag constraint cannot be met would get GPUs that it cannot use, so the policy decides
    again without it.
    """
    policy, placer = plugins.made_policy, plugins.made_placer
    traits = Traits.of(policy)
    if not view.jobs and not memory and traits.by_arrival:
        # Most clusters have no opportunistic jobs, but every round serves the spare view.
        nothing = Decision(grants=(), keep_running=True, stands_until=inf)
        return nothing, PlacerDecision(placements={}), view.capacity
    barred: dict[JobId, tuple[Reason, ...]] = {}
    for _ in range(MOST_TIMES):
        served = view.without(barred) if barred else view
        decision = plain = allocate(served, policy, memory)
        if not traits.resizes:
            decision = with_growth(served, decision, beside_waiting=traits.only_starts)
        decision = around_pinned(view, decision)
        placed, capacity = place(view, decision, placer)
        if decision.grants != plain.grants and _is_cut(plain, decision, placed):
            # Growth must not cost a start: the placer may have put other jobs on its GPUs.
            decision = around_pinned(view, plain)
            placed, capacity = place(view, decision, placer)
        more = {job: said for job, said in placed.reasons.items() if said[0].code == "tag_constraint"}
        barred |= more
        if not more:
            break
    if barred:
        placed = replace(placed, reasons={**placed.reasons, **barred})
    return decision, placed, capacity


def _is_cut(plain: Decision, grown: Decision, placed: PlacerDecision) -> bool:
    """Whether an enlarged grant found no place."""
    larger = zip(plain.grants, grown.grants, strict=False)
    return any(
        [
            before.jobs == after.jobs and before.gpus != after.gpus and position not in placed.placements
            for position, (before, after) in enumerate(larger)
        ]
    )


def around_pinned(view: View, decision: Decision) -> Decision:
    """Return the decision without changes to pinned jobs."""
    pinned = {job: unit for unit in view.capacity.pinned for job in unit}
    if not pinned:
        return decision
    # A grant to exactly the jobs that already hold GPUs together leaves them in place (`settle`).
    grants = [
        grant for grant in decision.grants if all(pinned.get(job) in (None, grant.jobs) for job in grant.jobs)
    ]
    return replace(
        staying_together(view, decision, pinned),
        grants=tuple(grants),
        stops=tuple([job for job in decision.stops if job not in pinned]),
        queue=tuple([job for job in decision.queue if job not in pinned]),
    )


def staying_together(view: View, decision: Decision, staying: Container[JobId]) -> Decision:
    """Return the decision changed so that these jobs keep sharing their GPUs, and no job replaces them."""
    refused = {job for job in decision.leaves if job in staying}
    if not refused:
        return decision
    leaves = {job: why for job, why in decision.leaves.items() if job not in refused}
    joins = {
        host: guests for host, guests in decision.joins.items() if refused.isdisjoint(view.running[host].jobs)
    }
    return replace(decision, leaves=leaves, joins=joins)


def standstill(view: View, memory: Memory, failure: str) -> ViewOutcome:
    """Return the outcome of a view for which nothing is decided: each job keeps what it has."""
    capacity = view.capacity.fork()
    capacity.keep_all()
    decision = Decision(grants=(), memory=memory, keep_running=True)
    return ViewOutcome(view=view, decision=decision, placements={}, capacity=capacity, failure=failure)


# Step 3, allocate: the view's policy decides how many GPUs each job gets; its decision is checked here.


def allocate(view: View, policy: Policy, memory: Memory) -> Decision:
    """Return the policy's decision; raise PolicyError when it fails or grants what is not allowed."""
    try:
        decision = policy.allocate(view, memory)
        if not isinstance(decision, Decision):
            raise PolicyError(_returned("policy", policy, "allocate", decision, Decision))
        decision = _without_forbidden_sharing(decision, view)
        check_decision(decision, view)
    except PolicyError:
        raise
    # A policy may fail in any way, also by sys.exit(); that costs only its own view.
    except (Exception, SystemExit) as error:
        raise PolicyError(_failed("policy", policy, error)) from error
    return decision


def _failed(kind: str, plugin: object, error: BaseException) -> str:
    own = {each.__module__ for each in type(plugin).__mro__}
    return f"{kind} {type(plugin).__name__} failed: {error!r}{line_in(own, error)}"


def _returned(kind: str, plugin: object, method: str, value: object, expected: type) -> str:
    what = "None" if value is None else f"an object of type {type(value).__name__}"
    return f"{kind} {type(plugin).__name__} failed: {method} returned {what}, not a {expected.__name__}"


def _without_forbidden_sharing(decision: Decision, view: View) -> Decision:
    """Return the decision with grants reduced to one job where their jobs may not share GPUs.

    A job with parts shares GPUs by its parts, a job with tags is placed alone, and a virtual cluster may
    forbid sharing. The other jobs of such a grant wait.
    """

    def is_forbidden(grant: Grant) -> bool:
        if len(grant.jobs) == 1:
            return False
        jobs = [view.jobs[job] for job in grant.jobs if job in view.jobs]
        return any(
            [
                job.has_parts
                or bool(job.tags or job.constraints)
                or view.sharing.get(job.virtual_cluster) == SHARE_NEVER
                for job in jobs
            ]
        )

    if not any([is_forbidden(grant) for grant in decision.grants]):
        return decision
    grants: list[Grant] = []
    others: list[JobId] = []
    for grant in decision.grants:
        if is_forbidden(grant):
            others += grant.jobs[1:]
            grants.append(replace(grant, jobs=grant.jobs[:1], mode=Mode.EXCLUSIVE))
        else:
            grants.append(grant)
    return replace(decision, grants=tuple(grants), queue=(*decision.queue, *others))


def check_decision(decision: Decision, view: View) -> None:
    """Raise PolicyError for grants that no placer could turn into a legal plan."""
    granted: set[JobId] = set()
    for grant in decision.grants:
        unknown = [job for job in grant.jobs if job not in view.jobs]
        if unknown or not grant.jobs:
            raise PolicyError(f"a grant names jobs that are not in view {view.name}: {unknown}")
        twice = granted.intersection(grant.jobs)
        if twice or len(set(grant.jobs)) < len(grant.jobs):
            raise PolicyError(f"a job was granted GPUs twice: {sorted(twice) or grant.jobs}")
        granted.update(grant.jobs)
        running = view.running.get(grant.jobs[0])
        if running is not None and running.jobs == grant.jobs and grant.gpus == len(running.gpus):
            continue
        demand = demand_of_grant(grant, view.jobs, view.capacity.cluster)
        for job in grant.jobs:
            accepted: Mapping[str, None] = dict.fromkeys(models_of(view.jobs[job], view.capacity.cluster))
            if grant.gpu_model is not None and grant.gpu_model not in accepted:
                raise PolicyError(f"job {job} was granted {grant.gpu_model}, which it does not accept")
        if grant.nodes:
            _check_nodes(grant, demand, view)
        if not demand.models:
            raise PolicyError(f"jobs {grant.jobs} have no GPU model in common")
    wrong = [job for job in decision.stops if job not in view.running or job in granted]
    if wrong or (decision.stops and not decision.keep_running):
        raise PolicyError(f"jobs {wrong or decision.stops} cannot be both stopped and granted, or do not run")
    if not all(map(view.jobs.__contains__, decision.queue)):
        unknown = [job for job in decision.queue if job not in view.jobs]
        raise PolicyError(f"the queue names jobs that are not in view {view.name}: {unknown}")
    if decision.joins or decision.leaves:
        _check_joins(decision, view, granted)


def _check_words(decision: Decision, view: View) -> None:
    """Raise PolicyError where later steps could not use what a policy or placer returns besides grants."""
    seconds = [grant.slice_seconds for grant in decision.grants]
    instants = [at for at in (decision.wake_at, decision.stands_until) if at is not None]
    for name, value in [
        *(("slice_seconds", each) for each in seconds),
        *(("wake_at", at) for at in instants),
    ]:
        if not isinstance(value, int | float) or value != value:
            raise PolicyError(f"{name} is a number of seconds, not {value!r}")
    for name, kind in (("memory", Mapping), ("reasons", Mapping), ("ledger", tuple)):
        if not isinstance(getattr(decision, name), kind):
            raise PolicyError(f"{name} is a {kind.__name__}, not {getattr(decision, name)!r}")
    checked: object = None
    for said in decision.reasons.values():
        if said is checked:
            # Thousands of jobs in a row may have the same reasons.
            continue
        if not isinstance(said, tuple) or not all([isinstance(reason, Reason) for reason in said]):
            raise PolicyError(f"the reasons of a job are a tuple of Reason, not {said!r}")
        checked = said
    wrong = [line for line in decision.ledger if not isinstance(line, LedgerLine)]
    if wrong:
        raise PolicyError(f"the ledger has lines of LedgerLine, not {wrong[0]!r}")


def _check_joins(decision: Decision, view: View, granted: Collection[JobId]) -> None:
    """Raise PolicyError where a job joins or leaves jobs that do not run on, or share no GPUs."""
    if not decision.keep_running:
        raise PolicyError("jobs cannot join or leave others where what runs is not kept")
    going = {view.running[job].jobs for job in (*decision.stops, *granted) if job in view.running}
    came: set[JobId] = set()
    for host, guests in decision.joins.items():
        if host not in view.running or view.running[host].jobs in going:
            raise PolicyError(f"jobs {guests} cannot join job {host}, which does not run on")
        wrong = [job for job in guests if job not in view.jobs or job in view.running or job in granted]
        if wrong or not came.isdisjoint(guests) or len(set(guests)) < len(guests):
            raise PolicyError(
                f"jobs {wrong or guests} cannot join job {host}: they do not wait, or have GPUs"
            )
        came.update(guests)
    for job in decision.leaves:
        running = view.running.get(job)
        if running is None or running.jobs in going or set(running.jobs) <= decision.leaves.keys():
            raise PolicyError(f"job {job} cannot leave: it shares GPUs with no job that runs on")


def _check_nodes(grant: Grant, demand: Demand, view: View) -> None:
    """Raise PolicyError where the nodes that a grant names do not match as many equal replicas."""
    fleet = view.capacity.cluster.fleets.get(grant.gpu_model or "")
    known = {node.id for node in fleet.nodes} if fleet is not None else set()
    wrong = [node for node, replicas in grant.nodes if node not in known or replicas < 1]
    count = sum([replicas for _, replicas in grant.nodes])
    if wrong or count != len(demand.needs) or len({need.gpus for need in demand.needs}) > 1:
        raise PolicyError(f"jobs {grant.jobs} were granted nodes that are not theirs: {grant.nodes}")


# Step 4, place: the view's placer chooses the exact GPUs; its answer is checked here.


def place(view: View, decision: Decision, placer: Placer) -> tuple[PlacerDecision, Capacity]:
    """Return the placer's answer, and the capacity that is left.

    Raises PolicyError when the placer fails or uses GPUs that the view may not use.
    """
    try:
        if not decision.grants:
            return PlacerDecision(placements={}), settle_exactly(view, decision, {})
        together = getattr(placer, "together", False)
        offered = _offered(view, decision)
        placed = place_tagged(decision.grants, view, offered, _placing(placer), together=together)
        if isinstance(placer, Consolidate) and view.tagged is None and _disturbed_no_one(offered, view):
            # The placer settled each grant on this same capacity; doing so again would change nothing.
            _check_limits(offered, view)
            return placed, offered
        return placed, settle_exactly(view, decision, placed.placements)
    except PolicyError:
        raise
    # A placer may fail in any way, too.
    except (Exception, SystemExit) as error:
        raise PolicyError(_failed("placer", placer, error)) from error


def _placing(placer: Placer) -> Callable[[Sequence[Grant], View, Capacity], PlacerDecision]:
    """Return the placer's own method; it raises PolicyError for another answer than a decision."""

    def placing(grants: Sequence[Grant], view: View, capacity: Capacity) -> PlacerDecision:
        placed = placer.place(grants, view, capacity)
        if not isinstance(placed, PlacerDecision):
            raise PolicyError(_returned("placer", placer, "place", placed, PlacerDecision))
        return placed

    return placing


def _disturbed_no_one(capacity: Capacity, view: View) -> bool:
    """Return whether all of the view's own holdings stay, and no other holding has to leave."""
    return not capacity.pending and len(capacity.dropped) == len(view.capacity.dropped)


def _offered(view: View, decision: Decision) -> Capacity:
    """Return a copy of the view's capacity in which running jobs without a grant stay."""
    capacity = view.capacity.fork()
    if decision.keep_running:
        named = [job for grant in decision.grants for job in grant.jobs if job in view.running]
        capacity.keep_all(but=[*named, *decision.stops])
    return capacity


def settle_exactly(view: View, decision: Decision, placements: Mapping[int, Placement]) -> Capacity:
    """Carry out placements on the view's own capacity, which refuses illegal ones."""
    if not set(placements) <= set(range(len(decision.grants))):
        raise PolicyError(f"grants were placed that do not exist: {sorted(placements)}")
    capacity = _offered(view, decision)
    staying = set()
    for position, placement in placements.items():
        jobs = decision.grants[position].jobs
        holding = capacity.pending.get(jobs)
        was = None if holding is None else holding.running
        if holding is not None and was and (was.replicas, was.nodes) == (placement.replicas, placement.nodes):
            capacity.keep(holding)
            staying.add(position)
    for holding in list(capacity.pending.values()):
        capacity.drop(holding)
    for position, placement in placements.items():
        if position not in staying:
            demand = demand_of_grant(decision.grants[position], view.jobs, capacity.cluster)
            nodes = _nodes_of(placement, demand, capacity)
            capacity.take(capacity.fit_on(demand, placement, nodes))
    _check_limits(capacity, view)
    return capacity


def _check_limits(capacity: Capacity, view: View) -> None:
    if capacity.account.is_overdrawn:
        raise PolicyError(f"view {view.name} was given more GPUs than it is guaranteed")


def _nodes_of(placement: Placement, demand: Demand, capacity: Capacity) -> list[int]:
    """Return the node of each replica; raise PolicyError when the placement is not what was granted."""
    model, where = placement.gpu_model, capacity.cluster.where
    if model not in demand.models or (demand.gpus > capacity.room(model) and not demand.has_parts):
        raise PolicyError(f"{demand.gpus} GPUs of {model} were placed, which the view may not hand out")
    if tuple(map(len, placement.replicas)) != tuple([need.gpus for need in demand.needs]):
        raise PolicyError(f"a gang of {demand.gpus} GPUs was placed as {placement.replicas}")
    if len(set(placement.gpus)) != demand.gpus:
        raise PolicyError(f"a GPU was used twice in {placement.replicas}")
    nodes = []
    for position, replica in enumerate(placement.replicas):
        if not replica:
            nodes.append(_node_of(position, placement, capacity))
            continue
        places = {where[gpu][:2] for gpu in replica if gpu in where}
        if len(places) != 1 or any(gpu not in where for gpu in replica) or min(places)[0] != model:
            raise PolicyError(f"a replica was placed on GPUs {replica}, not all {model} of one node")
        nodes.append(min(places)[1])
    return nodes


def _node_of(position: int, placement: Placement, capacity: Capacity) -> int:
    """Return the node of a replica without GPUs; raise PolicyError when it may not be there."""
    node = placement.nodes[position] if position < len(placement.nodes) else None
    place = None if node is None else capacity.cluster.place_of(node)
    if place is None or place[0] != placement.gpu_model:
        raise PolicyError(f"a replica without GPUs was placed on node {node}, not one of its gang's model")
    if not capacity.cluster.fleets[place[0]].open_nodes >> place[1] & 1:
        raise PolicyError(f"a replica without GPUs was placed on node {node}, which takes no work")
    return place[1]


# The jobs that wait in a view after its round, in order.


def queue_of(outcome: ViewOutcome) -> tuple[JobId, ...]:
    """Return the view's waiting jobs in the order in which they will be considered."""
    view, grants = outcome.view, outcome.decision.grants
    placed = {job for position in outcome.placements for job in grants[position].jobs}
    placed.update(*outcome.joins.values())
    waiting = {*view.waiting, *outcome.leaving} - placed
    named = [job for job in outcome.decision.queue if job in waiting]
    rest = {job: view.jobs[job] for job in waiting.difference(named)}
    others = sorted(rest.values(), key=lambda job: (-job.priority, job.submitted_at, job.id))
    return (*named, *(job.id for job in others))
