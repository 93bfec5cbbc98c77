"""Jobs that constraints between tags concern: their nodes, and why they wait (Medea).

Under every placer, no job is placed where it would break a hard constraint, its own or that of another job
there. New jobs with tags get nodes one after the other, or all together where the placer asks for it. The
placer then places them on these nodes, as it does every grant that names nodes. A running job stays on its
nodes. It stops where jobs ahead of it take its GPUs, and is placed again as a new job by a later round.

Constraints hold when a job is placed. Other jobs that leave later break none; a job that leaves in the same
round may still be counted. No job is disturbed where that can be avoided, even if more soft constraints could
be met.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from scheduler.core.building_blocks.policy import PlacerDecision, Tagged, View
from scheduler.core.fitting.capacity import Capacity
from scheduler.core.fitting.demand import Demand, demand_of_grant
from scheduler.core.fitting.long_running import Batch, Layout, Service, one_by_one
from scheduler.core.fitting.long_running_program import place as solve
from scheduler.core.fitting.offers import EVICTING, IDLE, RELEASING
from scheduler.core.fitting.settle import settle
from scheduler.core.fitting.storage import merged
from scheduler.core.model import wording
from scheduler.core.model.plan import Grant, Locality, Reason, Tier
from scheduler.core.model.snapshot import DOWNGRADE, Job, JobId, Node, NodeId
from scheduler.core.model.tag_constraints import CLUSTER, NODE, RACK, TagConstraint, in_words, rack_of


def place_tagged(
    grants: Sequence[Grant],
    view: View,
    capacity: Capacity,
    place: Callable[[Sequence[Grant], View, Capacity], PlacerDecision],
    *,
    together: bool,
) -> PlacerDecision:
    """Return a placer's answer to the grants, in which grants that constraints concern name their nodes.

    All of these grants, running jobs first, take the turn of the first of them; the other grants follow.
    """
    concerned = [position for position, grant in enumerate(grants) if _concerns(view, grant)]
    stay = {
        position: _where_it_is(grants[position], capacity)
        for position in concerned
        if grants[position].jobs in capacity.pending
    }
    if view.tagged is None or len(stay) == len(concerned):
        return place([stay.get(position, grant) for position, grant in enumerate(grants)], view, capacity)
    laid = _LayingOut(grants, view, view.tagged, capacity, concerned)
    laid.find(solve if together else one_by_one)
    rest = [position for position in range(concerned[0], len(grants)) if position not in set(concerned)]
    order = [*range(concerned[0]), *laid.found, *rest]
    placed = place([laid.found.get(position, grants[position]) for position in order], view, capacity)
    reasons = dict(placed.reasons)
    for position in laid.new:
        if position not in laid.found and (reason := laid.reason(position)) is not None:
            reasons.update((job, (reason,)) for job in grants[position].jobs)
    return replace(
        placed,
        placements={order[position]: placement for position, placement in placed.placements.items()},
        reasons=reasons,
    )


def _where_it_is(grant: Grant, capacity: Capacity) -> Grant:
    """Return the grant of a running job on the nodes that it is on: it stays there, or waits.

    A job that is not wholly on nodes of its view names none, and may move.
    """
    holding, cluster = capacity.pending[grant.jobs], capacity.cluster
    assert holding.running is not None
    known = cluster.numbers_by_id(holding.model)
    ids = [*holding.running.nodes] or [
        cluster.fleets[holding.model].nodes[cluster.where[gpus[0]][1]].id
        for gpus in holding.running.replicas
        if gpus and gpus[0] in cluster.where
    ]
    is_inside = len(ids) == len(holding.running.replicas) and known.keys() >= set(ids)
    nodes = tuple(sorted(Counter(ids).items())) if is_inside else ()
    return replace(grant, gpu_model=holding.model, nodes=nodes, locality=Locality.ANY)


def _concerns(view: View, grant: Grant) -> bool:
    return view.tagged is not None and view.tagged.concerns(view.jobs[grant.jobs[0]])


def service_of(job: Job, room: tuple[int, ...] | None = None) -> Service:
    """Return a job as the solver sees it; tags are scoped to its tenant."""
    return Service(
        tags=frozenset([f"{job.tenant}/{tag}" for tag in job.tags]),
        containers=sum([task.replicas for task in job.tasks]),
        gpus=job.tasks[0].gpus,
        constraints=tuple([replace(each, tag=f"{job.tenant}/{each.tag}") for each in job.constraints]),
        room=room,
    )


class _Ground:
    """The nodes of a view's cluster, and other nodes with jobs that constraints concern."""

    def __init__(self, view: View, tagged: Tagged) -> None:
        cluster = view.capacity.cluster
        homes: list[tuple[NodeId, tuple[str, ...]]] = []
        #: By GPU model: the index of its first node.
        self.first: dict[str, int] = {}
        by_home: dict[NodeId, int] = {}

        def add(node: Node) -> None:
            # A virtual node that is not bound yet is near only to nodes of its own cell.
            home = cluster.home_of(node)
            by_home.setdefault((home or node).id, len(homes))
            if home is None:
                homes.append((node.id, ("", *rack_of(node.path, cluster.levels))))
            else:
                homes.append((home.id, rack_of(home.path, cluster.levels)))

        for model in cluster.models:
            self.first[model] = len(homes)
            for node in cluster.fleets[model].nodes:
                add(node)
        #: By the id of a physical node: its index.
        self.place_of = by_home
        for number in sorted({node for _, nodes in tagged.elsewhere for node in nodes} - by_home.keys()):
            by_home[number] = len(homes)
            homes.append((number, rack_of(tagged.nodes[number].path, cluster.levels)))
        self.size = len(homes)
        nodes: dict[NodeId, int] = {}
        racks: dict[tuple[str, ...], int] = {}
        self.groups = {
            NODE: tuple([nodes.setdefault(number, len(nodes)) for number, _ in homes]),
            RACK: tuple([racks.setdefault(path, len(racks)) for _, path in homes]),
            CLUSTER: (0,) * len(homes),
        }


@dataclass(frozen=True, slots=True, eq=False)
class _Offer:
    """The room for a gang on one GPU model at one reach."""

    free: Mapping[int, int]
    #: By node, how many of its replicas fit.
    room: Mapping[int, int]


class _LayingOut:
    """Finds nodes for the new jobs of a view, on a copy of its capacity."""

    def __init__(
        self,
        grants: Sequence[Grant],
        view: View,
        tagged: Tagged,
        capacity: Capacity,
        concerned: Sequence[int],
    ) -> None:
        self._grants, self._view = grants, view
        self._ground = _Ground(view, tagged)
        self._site = capacity.fork()
        granted = {grant.jobs for grant in grants}
        for jobs, holding in list(self._site.pending.items()):
            if jobs not in granted:
                self._site.drop(holding)
        #: By position: the grants as they are to be placed.
        self.found: dict[int, Grant] = {}
        self.new: list[int] = []
        for position in concerned:
            grant = grants[position]
            if grant.jobs in self._site.pending:
                self.found[position] = _where_it_is(grant, self._site)
            else:
                self.new.append(position)
        for grant in grants[: concerned[0]]:
            settle(grant, view.jobs, self._site)
        stay = {grant.jobs for grant in self.found.values() if settle(grant, view.jobs, self._site)}
        self._there: list[tuple[JobId, Service, Mapping[int, int]]] = []
        for job, nodes in tagged.elsewhere:
            places = {self._ground.place_of[node]: count for node, count in nodes.items()}
            self._there.append((job.id, service_of(job), places))
        where = view.capacity.cluster.where
        for number, running in view.running.items():
            job = view.jobs[number]
            leaves = running.jobs not in stay and view.capacity.pending[running.jobs] in self._site.dropped
            if tagged.concerns(job) and not (leaves and job.on_reclaim != DOWNGRADE):
                places = Counter[int]()
                for replica in running.replicas:
                    for model, node, _ in [where[gpu] for gpu in replica[:1] if gpu in where]:
                        places[self._ground.first[model] + node] += 1
                self._there.append((number, service_of(job), places))

    def find(self, solve: Callable[[Batch], Layout]) -> None:
        """Find nodes for the new jobs, on the models that they prefer, and preferably where no job is
        disturbed.
        """
        demands = {position: self._demand(position) for position in self.new}
        choices = max([len(demand.models) for demand in demands.values()], default=0)
        for reach in range(IDLE, EVICTING + 1):
            for choice in range(choices):
                self._find(
                    {
                        position: demand.models[choice]
                        for position, demand in demands.items()
                        if position not in self.found and choice < len(demand.models)
                    },
                    reach,
                    solve,
                )

    def _demand(self, position: int) -> Demand:
        return demand_of_grant(self._grants[position], self._view.jobs, self._site.cluster)

    def _find(self, models: Mapping[int, str], reach: int, solve: Callable[[Batch], Layout]) -> None:
        """Find nodes for jobs, each on a GPU model; those that do not fit beside the others are left out."""
        offers: dict[object, _Offer | None] = {}
        rooms: dict[int, _Offer] = {}
        for position, model in models.items():
            demand = self._demand(position)
            if (demand, model) not in offers:
                offers[demand, model] = self._offer(demand, model, reach)
            offer = offers[demand, model]
            if offer is not None and sum(offer.room.values()) >= len(demand.needs):
                rooms[position] = offer
        while rooms:
            layout = solve(self._batch(rooms))
            site, found = self._site.fork(), dict[int, Grant]()
            for number, position in enumerate(rooms):
                if number in layout:
                    grant = self._on(self._grants[position], models[position], layout[number])
                    if settle(grant, self._view.jobs, site) is not None:
                        found[position] = grant
            if len(found) == len(layout):
                self._take(list(rooms), found, layout)
                self._site = site
                return
            # Beside the others there may be too few CPUs or too little memory.
            lost = {position for number, position in enumerate(rooms) if number in layout} - found.keys()
            rooms = {position: room for position, room in rooms.items() if position not in lost}

    def _offer(self, demand: Demand, model: str, reach: int) -> _Offer | None:
        layer = self._site.layer_for(demand, model, reach)
        if layer is None or demand.gpus > self._site.room(model):
            return None
        need, first = demand.needs[0], self._ground.first[model]
        free: dict[int, int] = {}
        room: dict[int, int] = {}
        for node, mask in enumerate(layer.masks):
            gpus = mask.bit_count()
            if gpus:
                free[first + node] = gpus
                # A job without GPUs is bounded only by the node's other resources.
                fits = gpus // need.gpus if need.gpus else len(demand.needs)
                if need.cpus:
                    fits = int(min(fits, layer.cpus[node] // need.cpus))
                if need.memory_bytes:
                    fits = int(min(fits, layer.memory[node] // need.memory_bytes))
                while fits > 0 and not layer.can_read(node, merged(need.readings * fits)):
                    fits -= 1
                if fits > 0:
                    room[first + node] = fits
        return _Offer(free, room)

    def _batch(self, rooms: Mapping[int, _Offer]) -> Batch:
        free = [0] * self._ground.size
        spread: dict[_Offer, tuple[int, ...]] = {}
        for offer in rooms.values():
            if offer not in spread:
                spread[offer] = tuple([offer.room.get(node, 0) for node in range(len(free))])
                for node, gpus in offer.free.items():
                    free[node] = max(free[node], gpus)
        return Batch(
            services=tuple(
                [service_of(self._job(position), spread[offer]) for position, offer in rooms.items()]
            ),
            free=tuple(free),
            groups=self._ground.groups,
            running=tuple([(service, places) for _, service, places in self._there]),
        )

    def _job(self, position: int) -> Job:
        return self._view.jobs[self._grants[position].jobs[0]]

    def _on(self, grant: Grant, model: str, places: Mapping[int, int]) -> Grant:
        nodes, first = self._site.cluster.fleets[model].nodes, self._ground.first[model]
        on = [(nodes[place - first].id, count) for place, count in sorted(places.items())]
        return replace(grant, gpu_model=model, locality=Locality.ANY, nodes=tuple(on))

    def _take(self, positions: Sequence[int], found: Mapping[int, Grant], layout: Layout) -> None:
        self.found.update(found)
        for number, places in layout.items():
            job = self._job(positions[number])
            self._there.append((job.id, service_of(job), places))

    # Why one waits

    def reason(self, position: int) -> Reason | None:
        """Return the hard constraint that keeps a job from existing room; None where no constraint does."""
        job, demand = self._job(position), self._demand(position)
        offers = [
            offer
            for model in demand.models
            for reach in (EVICTING, RELEASING)
            if (offer := self._offer(demand, model, reach)) is not None
        ]
        rooms = [offer.room for offer in offers if sum(offer.room.values()) >= len(demand.needs)]
        if not rooms:
            return None
        service = service_of(job)
        for stated, each in zip(job.constraints, service.constraints, strict=True):
            if each.weight is None:
                able = max([self._able(service, each, room) for room in rooms])
                if able < service.containers:
                    words = f"can be placed with {in_words(stated)}, as it must"
                    return _reason(job, stated, able, service.containers, words)
        for number, other, places in self._there:
            for each in other.constraints:
                if each.weight is None and each.most is not None and each.tag in service.tags:
                    able = max([self._able_beside(other, each, places, room) for room in rooms])
                    if able < service.containers:
                        stated = replace(each, tag=each.tag.partition("/")[2])
                        words = f"can be placed, since {wording.jobs([number])} must have {in_words(stated)}"
                        return _reason(job, stated, able, service.containers, words, [number])
        return Reason(
            code="tag_constraint",
            tier=Tier.TOPOLOGY,
            message="Its constraints and those of the jobs beside it cannot all hold now.",
            blocking={"tags": sorted({each.tag for each in job.constraints} | {*job.tags})},
            hint=_HINT,
        )

    def _seen(self, tag: str, group_of: Sequence[int]) -> Counter[int]:
        seen = Counter[int]()
        for _, other, places in self._there:
            if tag in other.tags:
                for place, count in places.items():
                    seen[group_of[place]] += count
        return seen

    def _able(self, service: Service, constraint: TagConstraint, room: Mapping[int, int]) -> int:
        """Return how many containers could be placed under only this constraint of its own."""
        group_of = self._ground.groups[constraint.scope]
        seen, own = self._seen(constraint.tag, group_of), constraint.tag in service.tags
        able = 0
        for group, holds in _by_group(room, group_of).items():
            fits = min(holds, service.containers)
            if constraint.most is not None:
                most = constraint.most - seen[group]
                fits = min(fits, most + 1) if own else (fits if most >= 0 else 0)
            if seen[group] + (fits - 1 if own else 0) >= constraint.least:
                able += max(fits, 0)
        return able

    def _able_beside(
        self, other: Service, constraint: TagConstraint, places: Mapping[int, int], room: Mapping[int, int]
    ) -> int:
        """Return how many containers could be placed beside another service, which has this constraint."""
        group_of = self._ground.groups[constraint.scope]
        seen, own = self._seen(constraint.tag, group_of), constraint.tag in other.tags
        heeded = {group_of[place] for place in places}
        assert constraint.most is not None
        return sum(
            [
                min(holds, max(constraint.most - seen[group] + own, 0)) if group in heeded else holds
                for group, holds in _by_group(room, group_of).items()
            ]
        )


def _by_group(room: Mapping[int, int], group_of: Sequence[int]) -> Counter[int]:
    found = Counter[int]()
    for place, holds in room.items():
        found[group_of[place]] += holds
    return found


_HINT = (
    "It starts when those leave that it must not be near, or those come that it must be near. A constraint"
    " with a `weight` is a wish, for which no job waits."
)


def _reason(
    job: Job, constraint: TagConstraint, able: int, of: int, words: str, jobs: Sequence[JobId] = ()
) -> Reason:
    count = f"{'Only ' if able else ''}{able or 'None'} of its {of} replicas" if of > 1 else "It"
    words = words.replace("can be placed", "cannot be placed", 1) if of == 1 else words
    return Reason(
        code="tag_constraint",
        tier=Tier.TOPOLOGY,
        message=f"{count} {words}.",
        blocking={"tag": constraint.tag, "scope": constraint.scope, **({"jobs": [*jobs]} if jobs else {})},
        needed=job.gpus,
        hint=_HINT,
    )
