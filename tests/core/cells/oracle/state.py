"""The cells of a cluster and the groups that run in them: HiveD's scheduler (OSDI'20, section 3).

    state = CellState(specification)
    match state.schedule(Group(name="a", virtual_cluster="vision", priority=10, members=((1, 8),))):
        case Placement(): ...  # it has its GPUs
        case Preempt(): ...  # delete the victims, then schedule it again
        case Wait(): ...  # says why; ask again when something has ended

A guaranteed group is placed on the virtual cells of its virtual cluster, where nobody else can be seen, and
these are then bound to hardware; an opportunistic one takes idle hardware. README.md says in what
this differs from the published code. The same calls give the same answers in every process.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from typing import Any

from scheduler.core.cells.chains import Layout, Leaf
from scheduler.core.cells.compiling import compiled
from scheduler.core.cells.health import fail, settle
from scheduler.core.model.cell_specification import Specification
from tests.core.cells.oracle.dump import dump
from tests.core.cells.oracle.granting import (
    GroupGrant,
    GuaranteedRequest,
    give_up,
    grant_opportunistic,
    in_order,
)
from tests.core.cells.oracle.groups import (
    Group,
    Placement,
    Pod,
    Preempt,
    Reconfiguration,
    RequestError,
    Wait,
    check_form,
)
from tests.core.cells.oracle.invariants import check
from tests.core.cells.oracle.reasons import why_guaranteed_waits, why_opportunistic_waits
from tests.core.cells.oracle.rebuilding import adopted, rebuild
from tests.core.cells.oracle.records import Record
from tests.core.cells.oracle.undoing import heal
from tests.core.cells.oracle.world import UsedWorld


class CellState:
    """Who has which cells. All nodes are healthy until something else is said."""

    def __init__(self, specification: Specification | Layout) -> None:
        """Raises SpecificationError with everything that is wrong with a specification."""
        self._world = UsedWorld(_layout(specification))
        self._records: dict[str, Record] = {}
        self._broken: set[str] = set()
        self._started = 0

    @property
    def layout(self) -> Layout:
        return self._world.layout

    @property
    def groups(self) -> dict[str, Placement]:
        """Where the groups run, by name in the order of their start; what is only reserved is left out."""
        return {name: each.placement for name, each in self._records.items() if not each.reserving}

    def schedule(
        self, group: Group, *, reserve: bool = False, dry_run: bool = False
    ) -> Placement | Preempt | Wait:
        """Give a group its GPUs, or say whose it would get, or why it waits.

        A group that has GPUs keeps them: the answer is where it runs, whatever became of its nodes. If others
        must leave first, nothing changes unless `reserve` is set; then the GPUs are the group's from now on,
        and when the victims have been deleted, the next call for the same group lets it have them.
        With `dry_run` the answer is what this call would do, and nothing changes, nor is anything reserved.

        Raises RequestError for what cannot be granted as it is put: an unknown virtual cluster, pinned cell
        or GPU model, a model of which the virtual cluster owns nothing, numbers out of range, a name that
        another request has.
        """
        known = self._records.get(group.name)
        if known is not None and known.reserving and dry_run:
            # What is reserved may have to be planned anew.
            return deepcopy(self).schedule(group, reserve=reserve)
        if known is not None:
            answer = self._known(known, group)
            if answer is not None:
                return answer
        check_form(group)
        granted = (
            self._opportunistic(group, dry_run)
            if group.opportunistic
            else self._guaranteed(group, reserve, dry_run)
        )
        if isinstance(granted, GroupGrant):
            self._started += 1
            self._records[group.name] = granted.record
            for record in granted.withdrawn:
                del self._records[record.group.name]
            self._settle()
            return granted.answer
        return granted

    def _known(self, record: Record, group: Group) -> Placement | Preempt | None:
        """Return what is to be said of a group that has GPUs or a reservation, None when it has none."""
        if not record.group.same_as(group):
            problem = f"{group.name} is the name of another group"
            raise RequestError("name", problem, "delete it first, or take another name")
        if not record.reserving:
            return record.placement
        ((hardware, leaves),) = record.held
        usable = self._world.suggested(hardware, group.suggested_nodes)
        chain = hardware.chain
        for node in {chain.above(0, leaf, chain.node_level) for leaf in leaves}:
            if node in hardware.broken or (usable is not None and not usable >> node & 1):
                self.delete(group.name)
                return None
        victims = in_order(hardware.users[leaf] for leaf in leaves)
        if victims:
            names = tuple(victim.group.name for victim in victims)
            return Preempt(group=group.name, victims=names, placement=record.placement, reserved=True)
        record.reserving = False
        hardware.use(leaves, record)
        return record.placement

    def _guaranteed(
        self, group: Group, reserve: bool, dry_run: bool
    ) -> GroupGrant | Placement | Preempt | Wait:
        spaces = self._world.spaces_for(group)
        for preempting in (False, True):
            for space in spaces:
                hardware = self._world.hardware[space.chain.name]
                usable = self._world.suggested(hardware, group.suggested_nodes)
                attempt = GuaranteedRequest(group, self._started, hardware, space, usable)
                granted = attempt.grant(preempting=preempting, reserve=reserve, dry_run=dry_run)
                if granted is not None:
                    return granted
        return why_guaranteed_waits(group, spaces, self._world.hardware)

    def _opportunistic(self, group: Group, dry_run: bool) -> GroupGrant | Placement | Wait:
        choices = self._world.hardware_for(group)
        usable = [self._world.suggested(hardware, group.suggested_nodes) for hardware in choices]
        for hardware, nodes in zip(choices, usable, strict=True):
            granted = grant_opportunistic(group, self._started, hardware, nodes, dry_run=dry_run)
            if granted is not None:
                return granted
        return why_opportunistic_waits(group, choices, usable)

    def adopt(self, group: Group, pods: Sequence[Pod]) -> Placement:
        """Take in a group that runs already on these GPUs, as after a restart; none of them is moved.

        It is guaranteed if its virtual cluster has cells for it there, else opportunistic until a later
        `reconfigure` finds some. So those that matter most come first. GPUs that are in no cell are left
        out. Nothing that runs has to give way.

        Raises RequestError when the group is known, its pods are not what its members say, or one of the
        GPUs is named twice or is somebody's.
        """
        check_form(group)
        if group.name in self._records:
            raise RequestError("name", f"{group.name} is there already", "a group that is not known yet")
        self._world.hardware_for(group)
        self._check_pods(group, pods)
        said = Placement(
            group=group.name, guaranteed=False, gpu_model="", chain="", pods=tuple(pods), within=""
        )
        running = Record(self._started, group, said, [], keeps_priority=not group.opportunistic)
        record = adopted(self._world, running)
        self._started += 1
        self._records[group.name] = record
        self._settle()
        return record.placement

    def _check_pods(self, group: Group, pods: Sequence[Pod]) -> None:
        sizes = [gpus for count, gpus in group.members for _ in range(count)]
        if [len(pod.gpus) for pod in pods] != sizes:
            raise RequestError("pods", "are not those of the members", f"pods of {sizes} GPUs, in this order")
        found: set[Leaf] = set()
        for number, pod in enumerate(pods):
            for gpu in pod.gpus:
                leaf, where = Leaf(pod.node, gpu), f"pods[{number}]"
                if leaf in found:
                    raise RequestError(where, f"GPU {gpu} of {pod.node} is named twice", "each GPU once")
                found.add(leaf)
                chain, inside = self.layout.where.get(leaf, (None, 0))
                if chain is None:
                    continue
                hardware = self._world.hardware[chain.name]
                user = hardware.reservers.get(inside) or hardware.users[inside]
                if user is not None:
                    problem = f"GPU {gpu} of {pod.node} is {user.group.name}'s"
                    raise RequestError(where, problem, "GPUs that are neither held nor reserved")

    def delete(self, name: str) -> None:
        """Forget a group: it has ended, or what was reserved for it is given back to those who have it still.

        Raises RequestError when there is no such group.
        """
        record = self._records.pop(name, None)
        if record is None:
            raise RequestError("name", f"there is no group {name}", "a group that has GPUs, or reserved ones")
        give_up(record)
        self._settle()

    def set_node_health(self, node: str, healthy: bool) -> None:
        """Say that a node is broken or healthy again. Groups on it are left alone.

        Raises RequestError when no cell has such a node.
        """
        if node not in self._world.nodes:
            raise RequestError("node", f"there is no node {node}", "a node of the specification")
        if healthy is (node not in self._broken):
            return
        change = heal if healthy else fail
        (self._broken.discard if healthy else self._broken.add)(node)
        for hardware, number in self._world.nodes[node]:
            change(hardware, number)
            settle(self._world, hardware)

    def reconfigure(self, specification: Specification | Layout) -> Reconfiguration:
        """Change the cells while groups run; none is stopped.

        A group whose cell has gone runs on as opportunistic; one that had lost its guarantee has it again if
        its virtual cluster owns cells where it runs. What was reserved is withdrawn.

        Raises SpecificationError, with nothing changed, when something is wrong with the specification.
        """
        result = rebuild(_layout(specification), self._records.values(), self._broken)
        self._world, self._records = result.world, result.records
        self._broken &= self._world.nodes.keys()
        return result.changes

    def dump(self) -> dict[str, Any]:
        """Return every physical and virtual cell and every group, as plain data for JSON."""
        return dump(self._world, self._records.values())

    def check(self) -> None:
        """Raise AssertionError when an invariant is broken; for tests, it looks at every cell."""
        check(self._world, self._records.values())

    def _settle(self) -> None:
        for hardware in self._world.hardware.values():
            if hardware.broken and not hardware.settled:
                settle(self._world, hardware)


def _layout(specification: Specification | Layout) -> Layout:
    return specification if isinstance(specification, Layout) else compiled(specification)
