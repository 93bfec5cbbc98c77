"""Events that can happen to the live loop and to the simulator alike, and a seeded list of them."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from nodeagent.messages import PROTOCOL, GpuSample, HostSample, Reading, ReplicaSample, Report
from scheduler import jobspec
from scheduler.agents.services.draining import drain_overdue, node_drain
from scheduler.agents.services.leases import expire_leases
from scheduler.agents.serving_pools.services import watch_serving_pools
from scheduler.core.model.lifecycle import AttemptState
from scheduler.core.model.reservations import Reservation
from scheduler.core.model.snapshot import JobId, Snapshot
from scheduler.core.model.training import Profile
from scheduler.core.sim.engine import Engine
from scheduler.core.sim.workload import Truth
from scheduler.jobs.attempts.services.profiling import profiles_measure
from scheduler.models import AttemptPart
from scheduler.models import Node as NodeRow
from scheduler.models import Reservation as ReservationRow
from scheduler.models.nodes import NodeState
from scheduler.nodes.services.managing import node_change
from scheduler.telemetry.metrics.services import metrics_roll_up, readings_store
from scheduler.wiring.clock import database_now
from tenants.models import Tenant
from tenants.selectors import viewer_of
from tenants.services import quota_set
from tests.scheduler.builders import make_user
from tests.scheduler.rounds.live_loop import LiveLoop
from tests.scheduler.rounds.virtual_clock import BEGINNING

#: Longer than any story: jobs end when the story says so.
_FOR_EVER = 1e9
NO_PROFILES: Mapping[str, Profile] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happens, to either side. `at` is in seconds from the story's beginning."""

    at: int
    to_rows: Callable[[LiveLoop], None]
    to_facts: Callable[[Engine], None]

    def happen_live(self, loop: LiveLoop) -> None:
        self.to_rows(loop)

    def script(self) -> _Scripted:
        return _Scripted(at=float(BEGINNING + self.at), act=self.to_facts)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Scripted:
    at: float
    act: Callable[[Engine], None]

    def happen(self, engine: Engine) -> None:
        self.act(engine)


def submission(
    at: int,
    number: int,
    tenant: str,
    spec: Mapping[str, Any],
    profiles: Mapping[str, Profile] = NO_PROFILES,
    *,
    measured: Profile | None = None,
) -> Event:
    """A job comes. `profiles`: what is known of applications; the rows of the live side are to say the same.
    `measured`: what its devices tell the simulator; the live loop, `devices_tell` does."""

    def to_facts(engine: Engine) -> None:
        job = jobspec.parse(dict(spec)).core_job(tenant=tenant, submitted_at=engine.now)
        job = replace(job, id=JobId(number), user=user, profile=profiles.get(job.application))
        engine.submit(job, Truth(work_seconds=_FOR_EVER, profile=measured))

    def to_rows(loop: LiveLoop) -> None:
        loop.submit(number, tenant, user, spec)

    # Every tenant has two users, who submit in turn.
    user = f"{tenant}-{number % 2}"
    return Event(at=at, to_rows=to_rows, to_facts=to_facts)


def devices_tell(at: int, profiles: Mapping[int, Profile]) -> Event:
    """The agents' readings of the last minute are put together; the simulator does so by itself."""

    def to_rows(loop: LiveLoop) -> None:
        now = database_now()
        for node in NodeRow.objects.all():
            parts = AttemptPart.objects.filter(node=node, attempt__state=AttemptState.RUNNING)
            gpus, replicas = [], []
            for part in parts.select_related("attempt__allocation"):
                profile = profiles.get(loop.numbers[part.attempt.job_id])
                if profile is None:
                    continue
                assert profile.utilisation is not None
                assert profile.memory_utilisation is not None
                assert profile.memory_bytes is not None
                replicas.append(ReplicaSample(attempt=part.attempt_id, rank=0))
                own = part.attempt.allocation.gpus.filter(gpu__node=node).values_list("gpu__index", flat=True)
                gpus += [
                    GpuSample(
                        index=index,
                        utilisation_percent=100 * profile.utilisation,
                        memory_utilisation_percent=100 * profile.memory_utilisation,
                        memory_used_bytes=profile.memory_bytes,
                    )
                    for index in own
                ]
            reading = Reading(
                at=now.timestamp() - 30, gpus=tuple(gpus), host=HostSample(), replicas=tuple(replicas)
            )
            readings_store(
                node, Report(protocol=PROTOCOL, boot="", generation=0, readings=(reading,)), at=now
            )
        metrics_roll_up(now)
        profiles_measure(now)

    return Event(at=at, to_rows=to_rows, to_facts=lambda engine: None)


def end(at: int, number: int) -> Event:
    """The job is done, if it runs."""
    return Event(
        at=at,
        to_rows=lambda loop: loop.finish(number),
        to_facts=lambda engine: engine.finish(JobId(number)),
    )


def cancellation(at: int, number: int) -> Event:
    return Event(
        at=at,
        to_rows=lambda loop: loop.cancel(number),
        to_facts=lambda engine: engine.cancel(JobId(number)),
    )


def cordon(at: int, name: str, *, cordoned: bool = True) -> Event:
    def to_rows(loop: LiveLoop) -> None:
        node = NodeRow.objects.get(name=name)
        node_change(node=node, cordoned=cordoned, rack=None, actor="a test")

    return Event(at=at, to_rows=to_rows, to_facts=_with_node(name, schedulable=not cordoned))


def drain(at: int, name: str, *, closes_after: int) -> Sequence[Event]:
    """The node is to be emptied; its time has come so many seconds later."""
    closes_at = BEGINNING + at + closes_after

    def to_rows(loop: LiveLoop) -> None:
        deadline = datetime.fromtimestamp(closes_at, UTC)
        node_drain(node=NodeRow.objects.get(name=name), actor="a test", deadline=deadline)

    def change(facts: Snapshot) -> Snapshot:
        return with_node(facts, name, closes_at=float(closes_at))

    return (
        Event(at=at, to_rows=to_rows, to_facts=lambda engine: engine.reconfigure(change)),
        Event(at=at + closes_after, to_rows=lambda loop: drain_overdue(), to_facts=lambda engine: None),
    )


def reservation(at: int, tenant: str, *names: str, starts: int, ends: int) -> Event:
    """Nodes are reserved for a tenant, under the name `paper`."""
    begins, over = BEGINNING + starts, BEGINNING + ends

    def to_rows(loop: LiveLoop) -> None:
        ReservationRow.objects.create(
            name="paper",
            tenant=Tenant.objects.get(name=tenant),
            gpu_model="V100",
            gpus=1,
            nodes=list(names),
            starts_at=datetime.fromtimestamp(begins, UTC),
            ends_at=datetime.fromtimestamp(over, UTC),
            made_by="a test",
            made_at=database_now(),
        )

    def change(facts: Snapshot) -> Snapshot:
        made = Reservation(
            name="paper", tenant=tenant, nodes=names, starts_at=float(begins), ends_at=float(over)
        )
        return replace(facts, reservations=(*facts.reservations, made))

    return Event(at=at, to_rows=to_rows, to_facts=lambda engine: engine.reconfigure(change))


def loss(at: int, name: str) -> Event:
    """The node stops reporting, and its lease ends now."""

    def to_rows(loop: LiveLoop) -> None:
        NodeRow.objects.filter(name=name).update(lease_expires_at=database_now() - timedelta(hours=1))
        expire_leases()

    return Event(at=at, to_rows=to_rows, to_facts=_with_node(name, schedulable=False, healthy=False))


def recovery(at: int, name: str) -> Event:
    """The node's agent reports again."""

    def to_rows(loop: LiveLoop) -> None:
        later = database_now() + timedelta(days=1)
        NodeRow.objects.filter(name=name).update(state=NodeState.READY, lease_expires_at=later)

    return Event(at=at, to_rows=to_rows, to_facts=_with_node(name, schedulable=True, healthy=True))


def _with_node(name: str, *, schedulable: bool, healthy: bool | None = None) -> Callable[[Engine], None]:
    def change(facts: Snapshot) -> Snapshot:
        (node,) = [node for node in facts.nodes if node.name == name]
        gpus = node.gpus
        if healthy is not None:
            gpus = tuple(replace(gpu, healthy=healthy) for gpu in gpus)
        closes_at = None if healthy is None else node.closes_at
        return with_node(facts, name, schedulable=schedulable, gpus=gpus, closes_at=closes_at)

    return lambda engine: engine.reconfigure(change)


def with_node(facts: Snapshot, name: str, **changes: Any) -> Snapshot:
    nodes = [replace(node, **changes) if node.name == name else node for node in facts.nodes]
    return replace(facts, nodes=tuple(nodes))


def watches(seconds: int, every: int) -> list[Event]:
    """The beat steers serving pools, lends and asks back; the simulator does so by itself."""
    return [
        Event(at=at, to_rows=lambda loop: watch_serving_pools(), to_facts=lambda engine: None)
        for at in range(0, seconds, every)
    ]


def quota(at: int, tenant: str, limits: Mapping[str, int]) -> Event:
    def to_rows(loop: LiveLoop) -> None:
        operator = viewer_of(make_user(operator=True))
        quota_set(by=operator, tenant=Tenant.objects.get(name=tenant), limits=limits)

    def change(facts: Snapshot) -> Snapshot:
        tenants = [replace(each, quota=limits) if each.name == tenant else each for each in facts.tenants]
        return replace(facts, tenants=tuple(tenants))

    return Event(at=at, to_rows=to_rows, to_facts=lambda engine: engine.reconfigure(change))


#: Number and GPUs of a job, and whether it is guaranteed -> what it asks for besides.
Besides = Callable[[int, int, bool], Mapping[str, Any]]


def reserving(number: int, gpus: int, guaranteed: bool) -> Mapping[str, Any]:
    """One job in three names the reservation of its tenant; most others say how long they may run."""
    asked: dict[str, Any] = {"reservation": "paper"} if number % 3 == 0 else {}
    return asked if number % 4 == 0 else {**asked, "time_limit": (100, 120, 240)[number % 3]}


#: Replicas and GPUs of each: small ones, whole nodes, gangs over two and three nodes.
_SHAPES = ((1, 1), (1, 1), (1, 2), (1, 4), (2, 2), (2, 3), (3, 1), (3, 2))


def demanding(number: int, gpus: int, guaranteed: bool) -> Mapping[str, Any]:
    """What some jobs ask for besides: nodes, what becomes of them when they give way, gangs of two shapes."""
    asked: dict[str, Any] = {}
    if number % 4 == 1 and gpus <= 4:
        asked["nodes"] = {"only": ["node-c"]} if gpus <= 2 else {"avoid": ["node-a"]}
    if number % 6 == 2:
        asked["tasks"] = [
            {"name": name, "replicas": replicas, "command": ["true"], "resources": {"gpu": size}}
            for name, replicas, size in (("trainer", 1, 2), ("reader", 2, 1))
        ]
    if guaranteed:
        asked["on_reclaim"] = ("downgrade", "downgrade", "preempt")[number % 3]
    return asked


def without_gpus(number: int, gpus: int, guaranteed: bool) -> Mapping[str, Any]:
    """Some jobs take CPUs and memory alone, as one replica or two; some gangs have a reader beside a GPU."""
    tasks: list[tuple[str, int, dict[str, Any]]] = []
    if number % 2:
        tasks = [("main", 1 + number % 4 // 2, {"gpu": 0, "cpu": 3 + number % 5, "memory": "1GiB"})]
    elif number % 6 == 2:
        tasks = [("trainer", 1, {"gpu": 2}), ("reader", 2, {"gpu": 0, "cpu": 2})]
    if not tasks:
        return {}
    command = ["true"]
    return {
        "tasks": [
            {"name": name, "replicas": replicas, "command": command, "resources": resources}
            for name, replicas, resources in tasks
        ]
    }


def elastic(number: int, gpus: int, guaranteed: bool) -> Mapping[str, Any]:
    """Two jobs of three are elastic gangs, and nobody is preferred."""
    if number % 3 == 0:
        return {"priority": 0}
    task = {"name": "main", "replicas": 4, "command": ["true"], "resources": {"gpu": 1, "gpu_model": "any"}}
    return {"priority": 0, "tasks": [task], "elastic": {"min_gpus": number % 3}}


def jobs(
    dice: random.Random,
    count: int,
    *,
    over_seconds: int,
    besides: Besides = lambda *job: {},
) -> Sequence[Event]:
    """So many jobs of all kinds, and what becomes of them."""
    events = []
    for number in range(1, count + 1):
        at = dice.randrange(over_seconds)
        replicas, gpus = dice.choice(_SHAPES)
        virtual_cluster = dice.choice(("north", "south"))
        guaranteed = dice.random() < 0.6 and (virtual_cluster == "north" or replicas * gpus <= 4)
        spec = {
            "name": f"job-{number}",
            "virtual_cluster": virtual_cluster,
            "guarantee": "guaranteed" if guaranteed else "opportunistic",
            "priority": dice.choice((0, 0, 0, 1)),
            "estimate": dice.choice((30, 60, 90)),
            "time_limit": dice.choice((None, None, 600, 90)),
            "application": dice.choice(("resnet50", "bert")),
            "skew": dice.choice((None, 0.1, 0.6)),
            "tasks": [
                {
                    "name": "main",
                    "replicas": replicas,
                    "command": ["true"],
                    "resources": {"gpu": gpus, "gpu_model": dice.choice(("any", ["V100"]))},
                }
            ],
        }
        spec |= besides(number, replicas * gpus, guaranteed)
        given = {key: value for key, value in spec.items() if value is not None}
        events.append(submission(at, number, dice.choice(("speech", "vision")), given))
        if number % 7 == 3:
            events.append(cancellation(at + dice.randrange(1, 150), number))
        # It ends at the first of these instants at which it runs.
        events += [end(at + dice.randrange(20, 400), number) for _ in range(3)]
    return events


def seeded(
    seed: int,
    *,
    seconds: int,
    job_count: int,
    besides: Besides = lambda *job: {},
) -> list[Event]:
    """A story of jobs, with a cordoned node, a drained and a lost one that come back, and changing quotas."""
    dice = random.Random(seed)
    events = [
        *jobs(dice, job_count, over_seconds=seconds * 2 // 3, besides=besides),
        cordon(seconds // 4, "node-b"),
        cordon(seconds // 2 + 3, "node-b", cordoned=False),
        *drain(seconds * 5 // 8, "node-c", closes_after=64),
        cordon(seconds * 7 // 8, "node-c", cordoned=False),
        loss(seconds // 3, "node-a"),
        recovery(seconds * 2 // 3, "node-a"),
        quota(seconds // 5, "vision", {"*": 6}),
        quota(seconds * 3 // 5, "vision", {"V100": 8}),
    ]
    return sorted((event for event in events if event.at < seconds), key=lambda event: event.at)


def crowd(seed: int, count: int, *, seconds: int, profiles: Mapping[str, Profile]) -> list[Event]:
    """Many jobs that ask for the same, so that they can share GPUs; some end, some are cancelled, the time of
    others is up, and a node is lost."""
    dice = random.Random(seed)
    task = {
        "name": "main",
        "replicas": 1,
        "command": ["true"],
        "resources": {"gpu": 1, "gpu_model": ["V100"]},
    }
    events: list[Event] = [loss(seconds * 3 // 4, "node-b"), recovery(seconds * 7 // 8, "node-b")]
    for number in range(1, count + 1):
        at = dice.randrange(seconds // 2)
        spec = {
            "name": f"job-{number}",
            "virtual_cluster": "north",
            "guarantee": "guaranteed",
            "priority": number % 2,
            "estimate": 100 + number,
            "application": dice.choice(sorted(profiles)),
            "tasks": [task],
        }
        limit = dice.choice((None, None, 120, 150))
        spec |= {} if limit is None else {"time_limit": limit}
        events.append(submission(at, number, "speech", spec, profiles))
        if number % 7 == 3:
            events.append(cancellation(at + dice.randrange(1, 150), number))
        events += [end(at + dice.randrange(20, 400), number) for _ in range(2)]
    return sorted((event for event in events if event.at < seconds), key=lambda event: event.at)


def with_parts(number: int, gpus: int, guaranteed: bool) -> Mapping[str, Any]:
    """Two jobs in three have parts of one or two GPUs, some of them with labels and memory."""
    if number % 3 == 0:
        return {}
    resources = {"gpu": (0.3, 0.5, 0.7)[number % 7 % 3], "gpu_model": ["V100"]}
    if number % 4 == 1:
        resources["gpu_memory"] = "6GiB"
    task = {"name": "main", "replicas": 1 + number % 2, "command": ["true"], "resources": resources}
    labels = {"anti_affinity": "noisy"} if number % 5 == 1 else {}
    return {"tasks": [task]} | ({"sharing": labels} if labels else {})
