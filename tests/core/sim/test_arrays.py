"""Arrays of which only so many tasks run at once, from round to round."""

import pytest

from scheduler.core.model.awaited import Awaited
from scheduler.core.model.job_array import ArrayTask
from scheduler.core.model.snapshot import Tenant
from tests.core.sim.worlds import arrival, cluster, ends, simulate

ARRAY = ArrayTask(number=1, at_most=2)


@pytest.mark.parametrize("policy", ["fifo", "las", "priority"])
def test_the_next_task_starts_when_one_has_ended(policy: str) -> None:
    tasks = [arrival(number, 0.0, 10.0, array=ARRAY) for number in (1, 2, 3, 4, 5)]
    beside = arrival(6, 0.0, 10.0)
    engine = simulate(cluster(8, policy=policy), [*tasks, beside])
    assert ends(engine) == {1: 10.0, 2: 10.0, 3: 20.0, 4: 20.0, 5: 30.0, 6: 10.0}


def test_tasks_that_come_later_wait_for_those_before_them() -> None:
    tasks = [arrival(number, float(number), 10.0, array=ARRAY) for number in (1, 2, 3)]
    assert ends(simulate(cluster(8), tasks)) == {1: 11.0, 2: 12.0, 3: 21.0}


def test_a_task_that_may_not_start_leaves_its_place_to_others() -> None:
    waits = {"awaits": (Awaited(job=9, when="succeeded"),)}
    tasks = [arrival(1, 0.0, 10.0, array=ARRAY, **waits)]
    tasks += [arrival(number, 0.0, 10.0, array=ARRAY) for number in (2, 3)]
    assert ends(simulate(cluster(8), [*tasks, arrival(9, 0.0, 5.0)])) == {1: 20.0, 2: 10.0, 3: 10.0, 9: 5.0}


def test_who_has_a_place_keeps_it_when_another_job_of_a_limited_tenant_comes() -> None:
    """The quota is handed out anew then; the tasks wait for GPUs, and for nothing else."""
    limited = cluster(2, tenants=(Tenant(name="speech", quota={"*": 4}), Tenant(name="vision")))
    tasks = [arrival(number, 1.0, 10.0, tenant="speech", array=ARRAY) for number in (1, 2)]
    later = arrival(9, 5.0, 10.0, tenant="speech")
    full = arrival(8, 0.0, 50.0, 2)
    assert ends(simulate(limited, [*tasks, later, full])) == {1: 60.0, 2: 60.0, 8: 50.0, 9: 70.0}
