"""Results to report on: tiny ones written by hand, and large ones that look like a month of a real cluster.

The large ones come from a list scheduler of forty lines. It is no simulator: it exists so that stays,
records and samples agree with one another and have the shape of real ones (heavy tails, gangs,
preemptions, waiting in the afternoon).
"""

import heapq
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from random import Random

from scheduler.core.model.snapshot import GpuId, JobId, NodeId
from scheduler.core.sim.result import JobRecord, Result, Sample, Stay, StayEnd

GPUS_A_NODE = 8


def record(
    id: int, *, submitted: float = 0.0, started: float | None, ended: float | None, **fields
) -> JobRecord:
    """A job of one GPU that ran without a break from `started` to `ended`, unless told otherwise."""
    held = 0.0 if started is None or ended is None else ended - started
    gpus = fields.get("gpus", 1)
    values = {
        "tenant": "vision",
        "virtual_cluster": "vision-vc",
        "application": "resnet50",
        "gpus": gpus,
        "guaranteed": True,
        "work_seconds": held or 1.0,
        "status": "passed",
        "outcome": "waiting" if started is None else "running" if ended is None else "succeeded",
        "attempts": 0 if started is None else 1,
        "held_seconds": held,
        "gpu_seconds": held * gpus,
    }
    return JobRecord(
        id=JobId(id), submitted_at=submitted, first_started_at=started, ended_at=ended, **{**values, **fields}
    )


def stay(
    job: int, gpus: Iterable[int], started: float, ended: float, end: StayEnd = "finished", **fields
) -> Stay:
    """GPUs are numbered from 0; GPU g is in node g // 8 + 1."""
    gpus = tuple(gpus)
    return Stay(
        job=JobId(job),
        gpu_model="V100",
        gpus=tuple(GpuId(gpu) for gpu in gpus),
        nodes=tuple(sorted({NodeId(gpu // GPUS_A_NODE + 1) for gpu in gpus})),
        started_at=started,
        ended_at=ended,
        end=end,
        **fields,
    )


def sample(
    at: float, held: int, *, usable: int = 4, running: int = 0, waiting: int = 0, fragmentation: float = 0.0
):
    return Sample(
        at=at,
        usable_gpus=usable,
        held_gpus=held,
        running_jobs=running,
        waiting_jobs=waiting,
        waiting_gpus=waiting,
        most_waiting_jobs=waiting,
        fragmentation=fragmentation,
    )


def result(jobs: Iterable[JobRecord], *, policy: str = "fifo", gpus: int = 4, **fields) -> Result:
    jobs = tuple(jobs)
    ends = [job.ended_at for job in jobs if job.ended_at is not None]
    values: Mapping = {
        "placer": "consolidate",
        "workload": "by hand",
        "cluster": f"v100={gpus}",
        "seed": 0,
        "round_seconds": 60.0,
        "gpus_by_model": {"V100": gpus},
        "stays": (),
        "samples": (),
        "rounds": 10,
        "elapsed_seconds": 0.5,
        "decide_seconds": 0.25,
        "began_at": 0.0,
        "ended_at": max(ends, default=0.0),
    }
    return Result(policy=policy, jobs=jobs, **{**values, **fields})


@dataclass
class _Run:
    """A job under way."""

    index: int
    gpus: tuple[int, ...]
    started: float
    ends: float
    number: int


class _Cluster:
    """Gangs on GPUs in the order of a key, with or without preemption of the longest by the shortest."""

    def __init__(self, jobs: list[JobRecord], nodes: int, preemptive: bool) -> None:
        self.jobs, self.preemptive = jobs, preemptive
        self.free = set(range(nodes * GPUS_A_NODE))
        self.total = len(self.free)
        self.left = [job.work_seconds for job in jobs]
        self.waiting: list[tuple[float, int]] = []
        self.running: dict[int, _Run] = {}
        self.ends: list[tuple[float, int, int]] = []
        self.stays: list[Stay] = []
        self.samples: list[Sample] = []
        self.waiting_gpus = 0

    def run(self) -> None:
        number, arrivals = 0, iter(enumerate(self.jobs))
        upcoming = next(arrivals, None)
        while upcoming or self.ends:
            if upcoming and (not self.ends or upcoming[1].submitted_at <= self.ends[0][0]):
                now = upcoming[1].submitted_at
                self.wait(upcoming[0])
                upcoming = next(arrivals, None)
            else:
                now, index, run = heapq.heappop(self.ends)
                if index not in self.running or self.running[index].number != run:
                    continue
                self.stop(index, now, "failed" if self.jobs[index].status == "failed" else "finished", ())
            while self.waiting and self.start(self.waiting[0][1], now, number):
                heapq.heappop(self.waiting)
                number += 1
            self.note(now)

    def wait(self, index: int) -> None:
        key = self.left[index] * self.jobs[index].gpus if self.preemptive else self.jobs[index].submitted_at
        heapq.heappush(self.waiting, (key, index))
        self.waiting_gpus += self.jobs[index].gpus

    def start(self, index: int, now: float, number: int) -> bool:
        job = self.jobs[index]
        if len(self.free) < job.gpus and self.preemptive:
            self.make_room(index, now)
        if len(self.free) < job.gpus:
            return False
        gpus = (
            tuple(sorted(self.free)[: job.gpus]) if self.total <= 64 else tuple(list(self.free)[: job.gpus])
        )
        self.free.difference_update(gpus)
        overhead = 30.0
        run = _Run(index, gpus, now, now + overhead + self.left[index], number)
        self.running[index] = run
        heapq.heappush(self.ends, (run.ends, index, number))
        self.waiting_gpus -= job.gpus
        first = now if job.first_started_at is None else job.first_started_at
        self.jobs[index] = replace(job, first_started_at=first, attempts=job.attempts + 1)
        return True

    def make_room(self, index: int, now: float) -> None:
        size = self.left[index] * self.jobs[index].gpus
        victims = heapq.nlargest(4, self.running.values(), key=lambda run: (run.ends - now) * len(run.gpus))
        victims = [
            run for run in victims if (run.ends - now) * len(run.gpus) > 4 * size and now - run.started > 600
        ]
        if len(self.free) + sum(len(run.gpus) for run in victims) < self.jobs[index].gpus:
            return
        for victim in victims:
            if len(self.free) < self.jobs[index].gpus:
                self.stop(victim.index, now, "preempted", (self.jobs[index].id,))
                self.wait(victim.index)

    def stop(self, index: int, now: float, end: StayEnd, by: tuple[JobId, ...]) -> None:
        run, job = self.running.pop(index), self.jobs[index]
        self.free.update(run.gpus)
        seconds, overhead = now - run.started, min(30.0, now - run.started)
        lost = min(120.0, seconds - overhead) if by else 0.0
        self.left[index] -= seconds - overhead - lost
        self.stays.append(
            stay(
                int(job.id),
                run.gpus,
                run.started,
                now,
                end,
                overhead_seconds=overhead,
                lost_seconds=lost,
                preempted_by=by,
                guaranteed=job.guaranteed,
            )
        )
        self.jobs[index] = replace(
            job,
            preemptions=job.preemptions + bool(by),
            held_seconds=job.held_seconds + seconds,
            gpu_seconds=job.gpu_seconds + seconds * job.gpus,
            overhead_gpu_seconds=job.overhead_gpu_seconds + overhead * job.gpus,
            lost_gpu_seconds=job.lost_gpu_seconds + lost * job.gpus,
            ended_at=None if by else now,
            outcome="waiting" if by else "failed" if end == "failed" else "succeeded",
        )

    def note(self, now: float) -> None:
        idle = len(self.free)
        largest = self.jobs[self.waiting[0][1]].gpus if self.waiting else GPUS_A_NODE
        self.samples.append(
            Sample(
                at=now,
                usable_gpus=self.total,
                held_gpus=self.total - idle,
                running_jobs=len(self.running),
                waiting_jobs=len(self.waiting),
                waiting_gpus=self.waiting_gpus,
                most_waiting_jobs=len(self.waiting),
                fragmentation=(idle % largest) / idle if idle else 0.0,
            )
        )


def month(jobs: int, *, nodes: int, seed: int, policy: str, load: float = 0.82) -> Result:
    """A workload of `jobs` jobs on `nodes` nodes of 8 V100, under "fifo" or a preemptive shortest-first."""
    random = Random(seed)
    sizes, tenants = (1, 2, 4, 8, 16), ("vision", "speech", "language", "robotics", "graphs", "physics")
    applications = ("resnet50", "bert", "vgg19", "deepspeech2")
    now, records = 0.0, []
    mean_gpu_seconds = 6_200.0
    for number in range(1, jobs + 1):
        busy = 1.6 if (now / 3600) % 24 < 12 else 0.6
        now += random.expovariate(load * busy * nodes * GPUS_A_NODE / mean_gpu_seconds)
        gpus = random.choices(sizes, weights=(70, 10, 10, 8, 2))[0]
        tenant = random.choices(tenants, weights=(30, 25, 20, 12, 8, 5))[0]
        records.append(
            record(
                number,
                submitted=now,
                started=None,
                ended=None,
                gpus=min(gpus, nodes * GPUS_A_NODE),
                tenant=tenant,
                virtual_cluster=f"{tenant}-vc",
                application=random.choice(applications),
                guaranteed=random.random() < 0.8,
                work_seconds=min(random.lognormvariate(7.2, 1.2), 400_000.0),
                status=random.choices(("passed", "killed", "failed"), weights=(70, 14, 16))[0],
            )
        )
    cluster = _Cluster(records, nodes, preemptive=policy != "fifo")
    cluster.run()
    cluster.stays.sort(key=lambda one: (one.started_at, one.job))
    return result(
        cluster.jobs,
        policy=policy,
        gpus=nodes * GPUS_A_NODE,
        workload=f"synthetic, {jobs:,} jobs",
        cluster=f"v100={nodes * GPUS_A_NODE}:{GPUS_A_NODE}",
        seed=seed,
        stays=tuple(cluster.stays),
        samples=tuple(cluster.samples),
        rounds=len(cluster.samples),
        ended_at=max(job.ended_at or 0.0 for job in cluster.jobs),
        notes=(
            "Synthetic: Poisson arrivals with a day's rhythm, log-normal durations.",
            f"Order of jobs: {policy}.",
        ),
    )
