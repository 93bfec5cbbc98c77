"""Sizes of elastic gangs: above their own, and of those that keep their world."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scheduler.core.fitting.demand import all_sizes_of, needs_of, sizes_of
from scheduler.core.fitting.feasible import never_fits
from scheduler.core.model.codec import dumps_snapshot, loads_snapshot
from scheduler.core.model.errors import PlanError, PolicyError
from scheduler.core.model.plan import Action, ActionKind, Placement, Plan
from scheduler.core.model.snapshot import FIXED_WORLD, GpuId, Job, Task, Tenant
from scheduler.core.model.training import Goodput
from scheduler.core.round.admit import Admission
from scheduler.core.round.checks.plan import check
from scheduler.core.round.facts import Facts
from tests.builders import make_job, make_running, make_snapshot

GROWING = make_job(1, 1, replicas=2, elastic=(1, 6))
SIX_REPLICAS = Task(replicas=6, gpus=1, cpus=2.0, memory_bytes=100)
FIXED = make_job(1, tasks=[SIX_REPLICAS], elastic=(1, 6), elastic_mode=FIXED_WORLD)


def test_a_gang_may_be_larger_than_its_own_size() -> None:
    assert all_sizes_of(GROWING) == (1, 2, 3, 4, 5, 6)
    assert len(needs_of(GROWING, 6)) == 6
    assert never_fits(GROWING, make_snapshot(jobs=[GROWING])) is None


def test_who_only_shrinks_is_started_at_its_own_size() -> None:
    assert sizes_of(GROWING) == (2, 1)


class TestFixedWorld:
    def test_runs_on_numbers_of_devices_that_divide_its_replicas(self) -> None:
        assert all_sizes_of(FIXED) == (1, 2, 3, 6)
        assert sizes_of(FIXED) == (6, 3, 2, 1)
        with pytest.raises(PolicyError, match="6 replicas, which do not divide among 4 GPUs"):
            needs_of(FIXED, 4)

    def test_replicas_on_one_device_take_turns_but_keep_their_memory(self) -> None:
        assert [(need.gpus, need.cpus, need.memory_bytes) for need in needs_of(FIXED, 2)] == [
            (1, 2.0, 300)
        ] * 2

    def test_replicas_of_several_gpus(self) -> None:
        job = make_job(1, 2, replicas=4, elastic=(2, 8), elastic_mode=FIXED_WORLD)
        assert all_sizes_of(job) == (2, 4, 8)

    @pytest.mark.parametrize("elastic", [(4, 6), (1, 12)])
    def test_a_range_that_ends_elsewhere_is_refused(self, elastic: tuple[int, int]) -> None:
        job = replace(FIXED, elastic=elastic)
        reason = never_fits(job, make_snapshot(jobs=[job]))
        assert reason is not None
        assert reason.code == "elastic_range_wrong"
        assert "do not divide" in reason.message
        assert reason.hint == "Use a range between two of 1, 2, 3 and 6 GPUs."

    def test_no_plan_gives_it_another_number(self) -> None:
        snapshot = make_snapshot(jobs=[FIXED])
        place = Placement(gpu_model="V100", replicas=tuple((GpuId(100 + gpu),) for gpu in range(4)))
        start = Action(kind=ActionKind.START, jobs=(FIXED.id,), virtual_cluster="research", placement=place)
        with pytest.raises(PlanError, match="keeps its 6 replicas and was given 4 devices"):
            check(snapshot, Plan(round_number=1, actions=(start,)))


def test_measurements_survive_being_stored() -> None:
    goodput = Goodput(
        parameters={"V100": (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 1.5)},
        noise=(0.5, 2.0),
        initial_batch=128,
        max_batch=4096,
        max_local_batch=512,
        most_replicas=4,
    )
    snapshot = make_snapshot(jobs=[replace(GROWING, goodput=goodput, elastic_mode="adaptive")])
    assert loads_snapshot(dumps_snapshot(snapshot)) == snapshot


class TestQuota:
    def ranges(self, *jobs: Job, running: int = 0, quota: int) -> dict[int, tuple[int, int] | None]:
        held = [make_running(jobs[0], [[100 + gpu] for gpu in range(running)])] if running else []
        snapshot = make_snapshot(
            jobs=jobs,
            running=held,
            tenants=[Tenant(name="vision", quota={"*": quota}), Tenant(name="speech")],
        )
        admission = Admission(Facts(snapshot))
        admission.refresh()
        return {int(number): job.elastic for number, job in sorted(admission.admitted.items())}

    def test_is_for_every_jobs_own_size_before_anyone_grows(self) -> None:
        second = make_job(2, 1, replicas=2, elastic=(1, 6))
        assert self.ranges(GROWING, second, quota=5) == {1: (1, 3), 2: (1, 2)}

    def test_growth_is_given_up_for_a_job_that_is_held_back(self) -> None:
        """It holds all four; its range says that two of them are for the other."""
        assert self.ranges(GROWING, make_job(2, 2), running=4, quota=4) == {1: (1, 2)}
        assert self.ranges(GROWING, make_job(2, 2), running=4, quota=6) == {1: (1, 4), 2: None}

    def test_nobody_grows_into_what_another_of_the_tenant_holds(self) -> None:
        """One has two GPUs and is considered first, another has four: of a quota of six nothing is left."""
        jobs = [make_job(number, 1, replicas=4, elastic=(1, 4)) for number in (1, 2)]
        running = [make_running(1, [[100], [101]]), make_running(2, [[102], [103], [104], [105]])]
        tenants = [Tenant(name="vision", quota={"*": 6}), Tenant(name="speech")]
        admission = Admission(Facts(make_snapshot(jobs=jobs, running=running, tenants=tenants)))
        admission.refresh()
        assert [job.elastic for _, job in sorted(admission.admitted.items())] == [(1, 2), (1, 4)]
