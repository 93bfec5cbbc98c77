"""Place a batch of long-running services under constraints between tags: Medea's problem.

P. Garefalakis et al., "Medea: Scheduling of Long Running Applications in Shared Production Clusters",
EuroSys'18, from notes on the paper. Each container of a service sees between `least` and `most` others with a
tag in its group (its node, its rack, the cluster). Maximised: services placed, minus violations of soft
constraints, minus nodes left fragmented. Deviations: containers of a service are interchangeable, so they are
counted by node; a violation counts once for the containers of a service in a group; a constraint concerns the
service that states it and one tag of others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from scheduler.core.model.tag_constraints import TagConstraint

#: Weights of a service, of a violation of weight 1, and of a fragmented node in the objective. A service
#: counts for more than the soft constraints that it could break, so that none of these makes a service wait.
PLACED, VIOLATED, FRAGMENTED = 100.0, 0.25, 0.01

#: By service: how many of its containers are on each node. A service that is not in it was not placed.
Layout = Mapping[int, Mapping[int, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """A number of equal containers, each with `gpus` on one node; all of them start or none."""

    tags: frozenset[str]
    containers: int
    gpus: int
    constraints: tuple[TagConstraint, ...] = ()
    #: How many of its containers fit on each node without the other services; None: as free GPUs allow.
    room: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Services to be placed together, and the nodes."""

    services: tuple[Service, ...]
    #: Free GPUs of each node.
    free: tuple[int, ...]
    #: By scope: the number of the group of each node.
    groups: Mapping[str, tuple[int, ...]]
    #: Services that run, and how many of their containers are on each node.
    running: tuple[tuple[Service, Mapping[int, int]], ...] = ()
    #: A node left with some GPUs, but fewer than this, is fragmented.
    threshold: int = 1

    def room_on(self, service: Service, node: int) -> int:
        """Return how many containers of a service fit on a node without the other services."""
        room = self.free[node] // service.gpus
        return room if service.room is None else min(room, service.room[node])


def violations(batch: Batch, layout: Layout) -> Iterator[tuple[TagConstraint, float]]:
    """Yield each violation, once for each service and group, and its extent.

    A violated hard constraint of a running service counts only if the batch made it worse.
    """
    old = [*batch.running]
    now = old + [(batch.services[number], nodes) for number, nodes in layout.items()]
    for owner, (service, nodes) in enumerate(now):
        for constraint in service.constraints:
            group_of = batch.groups[constraint.scope]
            before, after = _seen(constraint.tag, old, group_of), _seen(constraint.tag, now, group_of)
            own = int(constraint.tag in service.tags)
            is_known = owner < len(old) and constraint.weight is None
            for group in sorted({group_of[node] for node, count in nodes.items() if count}):
                extent = constraint.extent(after[group] - own)
                worse = extent - (constraint.extent(before[group] - own) if is_known else 0.0)
                if worse > 0:
                    yield constraint, worse


def _seen(
    tag: str, placed: Sequence[tuple[Service, Mapping[int, int]]], group_of: Sequence[int]
) -> Counter[int]:
    """Count the containers with a tag by group."""
    found = Counter[int]()
    for service, nodes in placed:
        if tag in service.tags:
            for node, count in nodes.items():
                found[group_of[node]] += count
    return found


def value(batch: Batch, layout: Layout) -> float | None:
    """Return the objective of a layout; None: it breaks a hard constraint or exceeds the room."""
    left = list(batch.free)
    for number, nodes in layout.items():
        for node, count in nodes.items():
            left[node] -= count * batch.services[number].gpus
            if count > batch.room_on(batch.services[number], node):
                return None
    if min(left, default=0) < 0:
        return None
    total = PLACED * len(layout) - FRAGMENTED * sum(0 < each < batch.threshold for each in left)
    for constraint, extent in violations(batch, layout):
        if constraint.weight is None:
            return None
        total -= VIOLATED * constraint.weight * extent
    return total


def one_by_one(batch: Batch) -> Layout:
    """Place service by service in the order of the batch, without looking ahead."""
    site = _Site(batch)
    for number in range(len(batch.services)):
        site.place([number])
    return site.layout


def by_popularity(batch: Batch) -> Layout:
    """Place service by service. Services whose tags most constraints name come first (Medea's tag
    popularity), and among equals those with the fewest suitable nodes (its node candidates).

    Each container takes the node with the least violation, then the fullest. A complete service that breaks a
    hard constraint is undone. If it lacks others near it, it is tried again after them, and last together
    with those that it lacks.
    """
    named = Counter(constraint.tag for service in batch.services for constraint in service.constraints)
    site = _Site(batch)

    def rank(number: int) -> tuple[int, int, int]:
        service = batch.services[number]
        popularity = sum([named[tag] for tag in service.tags]) + len(service.constraints)
        return -popularity, int(np.count_nonzero(site.room(number))), number

    order = sorted(range(len(batch.services)), key=rank)
    failed = [number for number in order if not site.place([number])]
    lacking = [number for number in failed if _lacks(batch.services[number])]
    if len(failed) < len(order):
        lacking = [number for number in lacking if not site.place([number])]
    for group in _together(batch, lacking, failed):
        site.place(group)
    return site.layout


def _lacks(service: Service) -> list[str]:
    """Return the tags of others that a service needs."""
    return [each.tag for each in service.constraints if each.weight is None and each.least]


def _together(batch: Batch, lacking: Sequence[int], failed: Sequence[int]) -> list[list[int]]:
    """Return groups of services that were not placed and need one another, in their order."""
    group_of = {number: number for number in failed}

    def root(number: int) -> int:
        while group_of[number] != number:
            number = group_of[number]
        return number

    having: dict[str, list[int]] = {}
    for number in failed:
        for tag in sorted(batch.services[number].tags):
            having.setdefault(tag, []).append(number)
    for number in lacking:
        for tag in _lacks(batch.services[number]):
            for other in having.get(tag, ()):
                group_of[root(other)] = root(number)
    groups: dict[int, list[int]] = {}
    for number in failed:
        groups.setdefault(root(number), []).append(number)
    return [group for group in groups.values() if len(group) > 1]


#: The cost of a broken hard constraint, where every node would break one.
_MUST = 1e6
#: The cost of needing others in one more group, as a part of a violation.
_RATHER = 1e-3
_Counts = np.ndarray[tuple[int], np.dtype[np.int64]]
_Costs = np.ndarray[tuple[int], np.dtype[np.float64]]


class _Site:
    """The nodes while services are placed one after the other: what is left, where each service is, and the
    constraints that concern it.
    """

    def __init__(self, batch: Batch) -> None:
        self._batch = batch
        self.layout: dict[int, Mapping[int, int]] = {}
        self._left: _Counts = np.array(batch.free, dtype=np.int64)
        self._group_of = {scope: np.array(of, dtype=np.int64) for scope, of in batch.groups.items()}
        self._sizes = {scope: max(of, default=-1) + 1 for scope, of in batch.groups.items()}
        #: By `Service.room`: thousands of services have few different ones.
        self._rooms: dict[tuple[int, ...], _Counts] = {}
        #: By tag that a constraint names, and its scope: containers with the tag, by group.
        self._seen: dict[str, dict[str, _Counts]] = {}
        for service in (*batch.services, *[service for service, _ in batch.running]):
            for each in service.constraints:
                scopes = self._seen.setdefault(each.tag, {})
                if each.scope not in scopes:
                    scopes[each.scope] = np.zeros(self._sizes[each.scope], dtype=np.int64)
        #: By tag: the constraints that name it, whether the service that states one has the tag too, and how
        #: many such services are in each group.
        self._heeded: dict[str, dict[tuple[TagConstraint, bool], _Counts]] = {}
        #: Containers that are still to come of services placed together, by tag.
        self._coming = Counter[str]()
        for service, nodes in batch.running:
            self._put(service, nodes, 1)

    def room(self, number: int) -> _Counts:
        """Return how many containers of a service fit on each node now."""
        service = self._batch.services[number]
        room: _Counts = self._left // service.gpus
        if service.room is None:
            return room
        if service.room not in self._rooms:
            self._rooms[service.room] = np.array(service.room, dtype=np.int64)
        return np.minimum(room, self._rooms[service.room])

    def place(self, numbers: Sequence[int]) -> bool:
        """Place these services, all or none; return whether no hard constraint was broken."""
        services, placed = self._batch.services, list[tuple[int, Mapping[int, int]]]()
        for number in numbers:
            self._coming.update(dict.fromkeys(services[number].tags, services[number].containers))
        for number in numbers:
            self._coming.subtract(dict.fromkeys(services[number].tags, services[number].containers))
            nodes = self._grown(number)
            if nodes is None:
                break
            self._put(services[number], nodes, 1, services[number].gpus)
            placed.append((number, nodes))
        self._coming.clear()
        if len(placed) == len(numbers) and all([self._holds(services[n], nodes) for n, nodes in placed]):
            self.layout.update(placed)
            return True
        for number, nodes in placed:
            self._put(services[number], nodes, -1, services[number].gpus)
        return False

    def _grown(self, number: int) -> Mapping[int, int] | None:
        """Return nodes for all containers of a service, chosen one by one; None: there is no room."""
        service, room, nodes = self._batch.services[number], self.room(number), Counter[int]()
        if int(room.sum()) < service.containers:
            return None
        others, left = self._cost_to_others(service), self._left.copy()
        for to_come in reversed(range(service.containers)):
            cost = np.where(room > 0, self._cost(service, room, to_come, list(nodes)) + others, np.inf)
            least = float(cost.min())
            if least == np.inf:
                self._count(service, nodes, -1)
                return None
            best = np.flatnonzero(cost <= least + 1e-9)
            node = int(best[np.argmin(left[best])])
            nodes[node] += 1
            left[node] -= service.gpus
            room[node] -= 1
            self._count(service, {node: 1}, 1)
            if service.tags & self._heeded.keys():
                others = self._cost_to_others(service)
        self._count(service, nodes, -1)
        return dict(sorted(nodes.items()))

    def _cost(self, service: Service, room: _Counts, to_come: int, nodes: Sequence[int]) -> _Costs:
        """Return the violation of the service's own constraints by one more container on each node.

        `nodes`: where the service has containers already.
        """
        cost: _Costs = np.zeros(len(room))
        for constraint in service.constraints:
            group_of = self._group_of[constraint.scope]
            seen = self._seen[constraint.tag][constraint.scope]
            broken: _Costs = np.zeros(len(seen))
            if constraint.most is not None:
                broken += np.maximum(seen - constraint.most, 0) / max(1, constraint.most)
            if constraint.least:
                # Containers still to come may be near it too, as far as there is room.
                there = np.bincount(group_of, weights=room, minlength=len(seen)) - 1
                coming = self._coming[constraint.tag] + (to_come if constraint.tag in service.tags else 0)
                hoped = seen + np.clip(there, 0, coming)
                broken += np.maximum(constraint.least - hoped, 0) / constraint.least
                if nodes:
                    # If groups lack others, it prefers to stay in one group.
                    lacking = seen < constraint.least
                    lacking[group_of[nodes]] = False
                    broken += lacking * _RATHER
            cost += (_MUST if constraint.weight is None else constraint.weight) * broken[group_of]
        return cost

    def _cost_to_others(self, service: Service) -> _Costs:
        """Return the violation of other services' constraints by one more container on each node."""
        cost: _Costs = np.zeros(len(self._left))
        for tag in sorted(service.tags & self._heeded.keys()):
            for (constraint, own), present in self._heeded[tag].items():
                seen = self._seen[tag][constraint.scope] - int(own)
                change: _Costs = np.zeros(len(seen))
                if constraint.most is not None:
                    over = (np.maximum(seen + 1 - constraint.most, 0), np.maximum(seen - constraint.most, 0))
                    change += (over[0] - over[1]) / max(1, constraint.most)
                if constraint.weight is not None and constraint.least:
                    change -= (seen < constraint.least) / constraint.least
                change *= (_MUST if constraint.weight is None else constraint.weight) * present
                cost += change[self._group_of[constraint.scope]]
        return cost

    def _holds(self, service: Service, nodes: Mapping[int, int]) -> bool:
        """Whether the service's own hard constraints hold, and those of others that name its tags."""
        for constraint in service.constraints:
            if constraint.weight is None:
                seen, group_of = (
                    self._seen[constraint.tag][constraint.scope],
                    self._group_of[constraint.scope],
                )
                own = int(constraint.tag in service.tags)
                if any([constraint.extent(int(seen[group_of[node]]) - own) > 0 for node in nodes]):
                    return False
        for tag in service.tags & self._heeded.keys():
            for (constraint, own), present in self._heeded[tag].items():
                if constraint.weight is None and constraint.most is not None:
                    seen, group_of = self._seen[tag][constraint.scope], self._group_of[constraint.scope]
                    groups = group_of[list(nodes)]
                    if bool(np.any((present[groups] > 0) & (seen[groups] - int(own) > constraint.most))):
                        return False
        return True

    def _put(self, service: Service, nodes: Mapping[int, int], sign: int, gpus: int = 0) -> None:
        """Add a service that is on these nodes, with `gpus` of the free GPUs per container; or remove it
        (-1).
        """
        self._count(service, nodes, sign)
        for node, count in nodes.items():
            self._left[node] -= sign * count * gpus
        for constraint in service.constraints:
            heeded = self._heeded.setdefault(constraint.tag, {})
            key = constraint, constraint.tag in service.tags
            if key not in heeded:
                heeded[key] = np.zeros(self._sizes[constraint.scope], dtype=np.int64)
            group_of = self._batch.groups[constraint.scope]
            heeded[key][list({group_of[node] for node in nodes})] += sign

    def _count(self, service: Service, nodes: Mapping[int, int], sign: int) -> None:
        for tag in service.tags:
            for scope, seen in self._seen.get(tag, {}).items():
                group_of = self._batch.groups[scope]
                for node, count in nodes.items():
                    seen[group_of[node]] += sign * count
