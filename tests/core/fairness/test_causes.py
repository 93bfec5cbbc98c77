"""Why somebody would be better off alone: one small cluster for each cause."""

from dataclasses import replace
from typing import Any

import pytest

from scheduler.core.fairness.causes import BY_JOB, BY_WEIGHT, Cause, Finding, cause_of
from scheduler.core.fairness.division import account_of
from scheduler.core.model.loan_terms import Lending, Loan, LoanId, Lot
from scheduler.core.model.snapshot import Member, Snapshot, Task, Tenant, VirtualCluster
from scheduler.core.round.registry import POLICIES
from tests.builders import NOW, make_job, make_node, make_running, make_snapshot

LONG_AGO = NOW - 3_600


def cluster(**fields: Any) -> Snapshot:
    """Eight V100 for two equals, all held by speech while a job of vision waits for one."""
    waiting = make_job(1, tenant="vision", virtual_cluster="shared")
    jobs = [waiting, *(make_job(n, tenant="speech", virtual_cluster="shared") for n in range(11, 19))]
    snapshot = make_snapshot(
        virtual_clusters=[
            VirtualCluster(
                name="shared",
                guaranteed={"V100": 8},
                members=(Member(tenant="speech"), Member(tenant="vision")),
            )
        ],
        jobs=jobs,
        running=[make_running(n, [89 + n]) for n in range(11, 19)],
    )
    return replace(snapshot, **fields)


def found(snapshot: Snapshot, since: float = LONG_AGO) -> Finding:
    return cause_of(account_of(snapshot, {}), "shared", "vision", since)


def with_policy(policy: str, snapshot: Snapshot) -> Snapshot:
    vc = replace(snapshot.virtual_clusters[0], policy=policy)
    return replace(snapshot, virtual_clusters=(vc,))


def test_policies_that_weigh_members_or_jobs_exist() -> None:
    assert set(POLICIES) >= BY_WEIGHT | BY_JOB


def test_a_policy_that_knows_no_weights() -> None:
    finding = found(cluster())
    assert finding.cause is Cause.POLICY_IGNORES_WEIGHTS
    assert finding.message == (
        "Policy fifo does not divide virtual cluster shared by the weights of its members; vision holds no"
        " GPUs of its own part of 4 V100, and all others 8 GPUs of theirs of 4."
    )
    assert "speech" not in finding.message


def test_a_policy_that_weighs_jobs_and_not_tenants() -> None:
    finding = found(with_policy("gavel", cluster()))
    assert finding.cause is Cause.POLICY_IGNORES_WEIGHTS
    assert finding.message.startswith("Policy gavel weighs jobs or apps and not their tenants")
    vc = replace(cluster().virtual_clusters[0], policy="gavel")
    vc = replace(vc, policy_parameters={"objective": "hierarchical_fifo"})
    assert found(cluster(virtual_clusters=(vc,))).cause is Cause.OTHERS_HOLD_MORE


def test_others_hold_more_though_the_policy_weighs() -> None:
    assert found(with_policy("fair", cluster())).cause is Cause.OTHERS_HOLD_MORE


def test_jobs_that_came_a_moment_ago() -> None:
    finding = found(cluster(), since=NOW - 90)
    assert finding == Finding(
        Cause.JUST_ARRIVED,
        "Its jobs came 90 s ago; others hand over GPUs as their turns and leases end.",
    )


@pytest.mark.parametrize(("quota", "what"), [({"*": 0}, "0 GPUs"), ({"V100": 0}, "0 V100")])
def test_a_quota_that_is_used_up(quota: dict[str, int], what: str) -> None:
    snapshot = cluster(tenants=(Tenant(name="speech"), Tenant(name="vision", quota=quota)))
    jobs = (replace(snapshot.jobs[0], gpu_models=("V100",)), *snapshot.jobs[1:])
    finding = found(replace(snapshot, jobs=jobs))
    assert finding == Finding(Cause.QUOTA, f"vision holds 0 of the {what} that its quota allows.")


def test_broken_and_cordoned_hardware_is_named() -> None:
    nodes = (make_node(1, gpus=4, broken=[3]), make_node(2, gpus=4, schedulable=False))
    snapshot = cluster(nodes=nodes, running=())
    assert found(snapshot) == Finding(
        Cause.BROKEN_HARDWARE,
        "Virtual clusters are guaranteed 8 V100, of which 3 can be used: 1 GPU of node node-0001 is broken"
        " and node node-0002 takes no work.",
    )


def test_a_guarantee_that_is_lent() -> None:
    snapshot = cluster()
    vc = replace(snapshot.virtual_clusters[0], guaranteed={"V100": 2})
    loan = Loan(
        id=LoanId(1),
        lender="shared",
        borrower="other",
        lot=Lot(gpus={"V100": 6}),
        starts_at=NOW - 60,
        ends_at=NOW + 3_600,
    )
    lending = Lending(loans=(loan,), own_gpus={"shared": {"V100": 8}})
    finding = found(replace(snapshot, virtual_clusters=(vc,), lending=lending))
    assert finding.cause is Cause.GUARANTEE_LENT
    assert finding.message.startswith(
        "Virtual cluster shared has lent 6 V100 to other; all of it is back at "
    )


def test_a_gang_that_fits_no_fragment() -> None:
    nodes = tuple(make_node(n, gpus=2) for n in range(1, 5))
    gang = make_job(1, gpus=2, tenant="vision", virtual_cluster="shared")
    small = [make_job(n, tenant="speech", virtual_cluster="shared") for n in range(11, 15)]
    snapshot = cluster(
        nodes=nodes,
        jobs=(gang, *small),
        running=tuple(make_running(10 + n, [100 * n]) for n in range(1, 5)),
    )
    assert found(snapshot) == Finding(
        Cause.FRAGMENTED, "4 V100 are idle, but no node has the 2 of them that job 1 needs side by side."
    )


def test_a_gang_that_is_spread() -> None:
    nodes = tuple(make_node(n, gpus=4) for n in (1, 2))
    gang = make_job(
        1, gpus=2, replicas=2, tenant="vision", virtual_cluster="shared", spread_speeds={"V100": 0.5}
    )
    theirs = make_job(11, gpus=2, replicas=2, tenant="speech", virtual_cluster="shared")
    snapshot = cluster(
        nodes=nodes,
        jobs=(gang, theirs),
        running=(make_running(1, [[100, 101], [200, 201]]), make_running(11, [[102, 103], [202, 203]])),
    )
    standing = account_of(snapshot, {}).divisions["shared"].standings["vision"]
    assert (standing.speed_here, standing.speed_alone) == (2, 4)
    assert found(snapshot) == Finding(
        Cause.FRAGMENTED, "It has its part, but on more nodes than need be: job 1."
    )


def test_what_nothing_explains_is_not_put_down_to_others() -> None:
    large = make_job(
        1, tenant="vision", virtual_cluster="shared", tasks=[Task(replicas=1, gpus=2, memory_bytes=2**40)]
    )
    assert found(cluster(jobs=(large,), running=())).cause is Cause.OTHER


def test_gpus_that_are_left_idle() -> None:
    snapshot = cluster()
    finding = found(replace(snapshot, running=snapshot.running[:6]))
    assert finding == Finding(
        Cause.LEFT_IDLE,
        "2 V100 are idle, and policy fifo with placer consolidate lets job 1 wait, which needs 1.",
    )


def test_jobs_that_were_stopped_and_wait_to_go_on() -> None:
    snapshot = with_policy("gandiva_fair", cluster())
    stopped = replace(snapshot.jobs[0], attempts=2)
    finding = found(replace(snapshot, jobs=(stopped, *snapshot.jobs[1:])))
    assert finding == Finding(Cause.RESTARTED, "What waits has lost GPUs that it had: job 1 ran before.")


def test_as_many_gpus_but_slower_ones() -> None:
    nodes = (make_node(1, gpus=2), make_node(2, gpus=2, gpu_model="K80"))
    speeds = {"V100": 4.0, "K80": 1.0}
    owners = {1: "vision", 2: "vision", 11: "speech", 12: "speech"}
    jobs = [
        make_job(n, tenant=tenant, virtual_cluster="shared", throughput=speeds)
        for n, tenant in owners.items()
    ]
    vc = VirtualCluster(
        name="shared",
        guaranteed={"V100": 2, "K80": 2},
        members=(Member(tenant="speech"), Member(tenant="vision")),
        policy="fair",
    )
    holds = [make_running(1, [200], gpu_model="K80"), make_running(2, [201], gpu_model="K80")]
    holds += [make_running(11, [100]), make_running(12, [101])]
    snapshot = make_snapshot(nodes=nodes, jobs=jobs, running=holds, virtual_clusters=[vc])
    assert found(snapshot) == Finding(
        Cause.SLOWER_GPUS, "It has 2 K80; of its own part, 1 K80 and 1 V100, its jobs would make more."
    )
