"""What is asked of a cell state, and what it answers.

A *group* is a gang: its pods get all their GPUs at once or none, and a pod stays on one node (HiveD, OSDI'20,
"affinity group").
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from scheduler.core.cells.errors import Problem

#: The priority of a group that runs on what nobody needs just now, and makes room for whoever owns it.
OPPORTUNISTIC = -1
HIGHEST_PRIORITY = 1000
MOST_PODS = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """A gang that wants GPUs."""

    name: str
    virtual_cluster: str
    #: 0 to HIGHEST_PRIORITY, the larger the more urgent, and guaranteed; or OPPORTUNISTIC.
    priority: int
    #: (pods, GPUs of each), such as ((1, 8), (4, 2)).
    members: tuple[tuple[int, int], ...]
    #: None: any that the virtual cluster has.
    gpu_model: str | None = None
    #: The name of a pinned cell of the virtual cluster; the group runs nowhere else.
    pinned_cell: str | None = None
    #: When a group of higher priority needs its cells, run on as opportunistic instead of making room.
    lazy_preemption: bool = False
    #: The nodes it may run on; None: all.
    suggested_nodes: frozenset[str] | None = None

    @property
    def opportunistic(self) -> bool:
        return self.priority == OPPORTUNISTIC

    @property
    def gpus(self) -> int:
        return sum(pods * gpus for pods, gpus in self.members)

    def same_as(self, other: Group) -> bool:
        """Whether it is the same request; where it may run can change from one call to the next."""
        return replace(self, suggested_nodes=None) == replace(other, suggested_nodes=None)


@dataclass(frozen=True, slots=True)
class Pod:
    """The GPUs of one pod: a node and the indices there."""

    node: str
    gpus: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """The group has these GPUs."""

    group: str
    #: On cells of its virtual cluster; False: opportunistic, or its guarantee has lapsed.
    guaranteed: bool
    gpu_model: str
    chain: str
    #: In the order of the members.
    pods: tuple[Pod, ...]
    #: The address of the lowest cell that holds all of it, or the chain's name.
    within: str
    #: Groups whose guarantee lapsed by this call: they made room by lazy preemption and run on.
    lapsed: tuple[str, ...] = ()
    #: Groups of lower priority that were waiting for their victims and lost what was reserved for them.
    withdrawn: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Preempt:
    """The group gets GPUs as soon as these others have been deleted."""

    group: str
    #: Whole groups, in the order in which they were started.
    victims: tuple[str, ...]
    #: Where it would run; while it is not reserved, another call may find another place.
    placement: Placement
    #: Nobody else gets its GPUs any more, and what it says of others has happened.
    reserved: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """The group gets nothing now. README.md lists the codes."""

    group: str
    code: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconfiguration:
    """What a new specification meant to the groups there are, by name in the order of their start."""

    #: Their cells are gone: they run on as opportunistic.
    lapsed: tuple[str, ...]
    #: They run on cells of their virtual cluster again.
    returned: tuple[str, ...]
    #: What was reserved for them is not any more.
    withdrawn: tuple[str, ...]


class RequestError(ValueError):
    """A request for cells that can never be granted as it is put; `field` is the part at fault."""

    def __init__(self, field: str, problem: str, hint: str = "") -> None:
        super().__init__(str(Problem(field, problem, hint)))
        self.problem = Problem(field, problem, hint)


def check_form(group: Group) -> None:
    """Raise RequestError when a request makes no sense in any cluster."""
    if not group.name:
        raise RequestError("name", "is empty", "a name that no other group has")
    if not OPPORTUNISTIC <= group.priority <= HIGHEST_PRIORITY:
        hint = f"0 to {HIGHEST_PRIORITY}, or {OPPORTUNISTIC} for opportunistic"
        raise RequestError("priority", f"{group.priority} is out of range", hint)
    if not group.members:
        raise RequestError("members", "is empty", "at least one (pods, GPUs of each)")
    for number, (pods, gpus) in enumerate(group.members):
        if pods < 1 or gpus < 1:
            problem = f"{pods} pods of {gpus} GPUs are none"
            raise RequestError(f"members[{number}]", problem, "whole numbers from 1")
    pods = sum(pods for pods, _ in group.members)
    if pods > MOST_PODS:
        raise RequestError("members", f"has {pods} pods", f"at most {MOST_PODS}")
    if group.opportunistic and group.pinned_cell is not None:
        hint = "a priority from 0, or no pinned cell"
        raise RequestError("pinned_cell", "an opportunistic group cannot ask for a pinned cell", hint)
