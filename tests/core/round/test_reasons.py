"""Every reason there is: when it is given, what it says, and that it is declared."""

from __future__ import annotations

import ast
from dataclasses import replace
from pathlib import Path

import pytest

from scheduler.core.fitting.feasible import never_fits
from scheduler.core.model.plan import Reason, Tier
from scheduler.core.model.reasons import REASONS
from scheduler.core.model.snapshot import Job, Snapshot, Task, Tenant, Topology
from scheduler.core.model.tag_constraints import TagConstraint
from scheduler.core.model.wording import instant
from scheduler.core.round.decide import decide
from tests.builders import (
    NOW,
    make_cluster,
    make_job,
    make_node,
    make_running,
    make_snapshot,
    make_virtual_cluster,
)

ROOT = Path(__file__).parents[3]


def reason_of(snapshot: Snapshot, job: int) -> Reason:
    """Return the most decisive reason of a job that waits."""
    return next(reasons[0] for number, reasons in decide(snapshot).reasons.items() if number == job)


def test_every_declared_code_is_given_with_each_of_its_tiers_and_no_other() -> None:
    """Each reason is checked when it is made; what stands in a line that no test runs is seen only here."""
    written = set()
    scheduler = ROOT / "scheduler"
    for source in [*(scheduler / "core").rglob("*.py"), *(scheduler / "rounds").rglob("*.py")]:
        for node in ast.walk(ast.parse(source.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "Reason":
                fields = {keyword.arg: keyword.value for keyword in node.keywords}
                assert isinstance(fields["code"], ast.Constant), source
                tier = fields["tier"]
                tiers = [tier.attr] if isinstance(tier, ast.Attribute) else ["GUARANTEE", "ORDER"]
                written |= {(fields["code"].value, Tier[name]) for name in tiers}
    assert written == {(code, tier) for code, declared in REASONS.items() for tier in declared.tiers}


@pytest.mark.parametrize("code", REASONS)
def test_a_declared_code_has_the_tiers_of_its_declaration(code: str) -> None:
    for tier in Tier:
        if tier in REASONS[code].tiers:
            assert Reason(code=code, tier=tier, message="So.").tier is tier
        else:
            with pytest.raises(ValueError, match=f"^tier: reason {code} has .+, not {tier}$"):
                Reason(code=code, tier=tier, message="So.")


def test_policies_from_outside_give_codes_of_their_own() -> None:
    assert {Reason(code="odd", tier=tier, message="So.").tier for tier in Tier} == set(Tier)


class TestNever:
    """What submit refuses, and what a changed cluster turns a waiting job into."""

    snapshot = make_snapshot(
        nodes=[
            *make_cluster(2),
            make_node(3, gpus=4, gpu_model="P100", cpus=16.0, memory_bytes=2**34),
            make_node(4, gpus=4, gpu_model="P100", rack="rack-9", cpus=16.0, memory_bytes=2**34),
        ],
        virtual_clusters=[
            make_virtual_cluster("products", {"V100": 4}, tenants=["speech"]),
            make_virtual_cluster("research", {"V100": 8, "P100": 8}, tenants=["vision"]),
        ],
        tenants=[Tenant(name="speech"), Tenant(name="vision", quota={"*": 12, "P100": 8})],
    )

    @pytest.mark.parametrize(
        ("job", "code", "message", "hint"),
        [
            (
                make_job(1, virtual_cluster="reserch"),
                "unknown_virtual_cluster",
                "There is no virtual cluster reserch.",
                "Choose products or research.",
            ),
            (
                make_job(1, virtual_cluster="products"),
                "not_a_member",
                "Tenant vision is not a member of virtual cluster products.",
                "Submit it to research.",
            ),
            (
                make_job(1, tasks=[Task(replicas=1, gpus=0)]),
                "no_gpus_requested",
                "Every task needs at least one replica, and every replica GPUs, or else CPUs or memory in"
                " numbers.",
                "Give each task `replicas` and `resources.gpu` of 1 or more, or say `cpu` or `memory`.",
            ),
            (
                make_job(1, topology=Topology(level="row")),
                "unknown_topology_level",
                "This cluster has no topology level row.",
                "Use rack, node, socket or switch.",
            ),
            (
                make_job(1, 2, replicas=2, elastic=(1, 4)),
                "elastic_range_wrong",
                "A gang of 4 GPUs cannot be elastic from 1 to 4 GPUs.",
                "Use one task, and a range around its size in steps of 2 GPUs (one replica).",
            ),
            (
                make_job(1, gpu_models=("H100",)),
                "unknown_gpu_model",
                "This cluster has no H100.",
                "It has P100 and V100.",
            ),
            (
                make_job(1, 1, replicas=16, guaranteed=False),
                "exceeds_quota",
                "Tenant vision may hold at most 12 GPUs at once; this job needs 16.",
                "Ask for at most 12 GPUs, or an operator for more quota.",
            ),
            (
                make_job(1, 1, replicas=10),
                "exceeds_guarantee",
                "Virtual cluster research guarantees 8 P100 and 8 V100; this guaranteed job needs 10 GPUs.",
                "Ask for at most 8 V100, or submit it as opportunistic.",
            ),
            (
                make_job(1, 4, replicas=5, guaranteed=False, tenant="speech", virtual_cluster="products"),
                "exceeds_cluster",
                "The cluster has 16 V100 in all; this job needs 20.",
                "Ask for at most 16 V100.",
            ),
            (
                make_job(1, 6, gpu_models=("P100",)),
                "exceeds_node",
                "A node has at most 4 P100; one replica of this job needs 6,"
                " and a replica cannot span nodes.",
                "Split the task into replicas of at most 4 GPUs each.",
            ),
            (
                make_job(1, tasks=[Task(replicas=1, gpus=1, cpus=32.0)], gpu_models=("P100",)),
                "exceeds_node_resources",
                "No node with P100 has 32 CPUs for one replica of 1 GPU.",
                "Ask for fewer CPUs or less memory per replica.",
            ),
            (
                make_job(
                    1, 4, replicas=2, gpu_models=("P100",), topology=Topology(level="rack", required=True)
                ),
                "exceeds_topology_level",
                "No single rack can hold the whole gang of 8 P100.",
                "Make the topology level rack preferred instead of required, or choose a wider one.",
            ),
            (
                make_job(
                    1,
                    3,
                    replicas=2,
                    tasks=[Task(replicas=2, gpus=3), Task(replicas=1, gpus=2)],
                    gpu_models=("P100",),
                ),
                "exceeds_packing",
                "The 3 replicas do not fit onto the 2 nodes with P100, even if all of them were idle.",
                "Use smaller replicas, or fewer of them.",
            ),
            (
                make_job(
                    1,
                    replicas=6,
                    gpu_models=("P100",),
                    tags=("web",),
                    constraints=(
                        TagConstraint(tag="web", most=0, weight=1.0),
                        TagConstraint(tag="web", most=1),
                    ),
                ),
                "exceeds_constraint",
                'At most 4 of its 6 replicas can be placed with at most 1 other with tag "web" on its'
                " node, even if all nodes were idle.",
                "Use at most 4 of the replicas, allow more others by `max`, or give the constraint a"
                " `weight`: then no job waits for it.",
            ),
        ],
        ids=lambda value: value if isinstance(value, str) and value.isidentifier() else "",
    )
    def test_what_can_never_run(self, job: Job, code: str, message: str, hint: str) -> None:
        reason = never_fits(job, self.snapshot)
        assert reason is not None
        assert (reason.code, reason.tier, reason.message, reason.hint) == (code, Tier.NEVER, message, hint)

    def test_what_fits_an_idle_cluster_is_not_refused(self) -> None:
        assert never_fits(make_job(1, 4, replicas=2, gpu_models=("P100",)), self.snapshot) is None

    def test_broken_gpus_and_cordoned_nodes_count_as_whole(self) -> None:
        down = make_snapshot(nodes=[make_node(1, schedulable=False, broken=range(8))])
        assert never_fits(make_job(1, 8), down) is None
        assert reason_of(make_snapshot(nodes=down.nodes, jobs=[make_job(1, 8)]), 1).code == "guarantee_short"

    def test_the_nearest_spec_that_could_run_does(self) -> None:
        split = make_job(1, 2, replicas=3, gpu_models=("P100",))
        assert never_fits(split, self.snapshot) is None


class TestHeldBack:
    def test_it_begins_later_until_it_has_started_once(self) -> None:
        plan = decide(make_snapshot(jobs=[make_job(1, eligible_at=NOW + 90)]))
        (reason,) = plan.reasons[1]
        assert (reason.code, reason.blocking) == ("begins_later", {"eligible_at": NOW + 90})
        assert reason.message == f"It begins at {instant(NOW + 90)}."
        assert plan.wake_at == NOW + 90

    def test_on_hold_and_backing_off(self) -> None:
        job = make_job(1, held=True, eligible_at=NOW + 90, attempts=1)
        reasons = decide(make_snapshot(jobs=[job])).reasons[1]
        assert [reason.code for reason in reasons] == ["held", "backoff"]
        assert reasons[1].message == ("It failed before and is tried again at 22:14:50 UTC on 14 November.")

    def test_a_job_that_is_cancelled_before_it_ran(self) -> None:
        assert reason_of(make_snapshot(jobs=[make_job(1, cancelling=True)]), 1).code == "cancelling"


class TestQuota:
    def snapshot(self, *jobs: Job, quota: dict[str, int], running: int = 0) -> Snapshot:
        holder = make_job(99, running, priority=-5)
        holds = [make_running(holder, range(100, 100 + running))] if running else []
        return make_snapshot(
            nodes=[make_node(1), make_node(2, gpu_model="P100")],
            jobs=[*jobs, holder] if running else jobs,
            running=holds,
            virtual_clusters=[make_virtual_cluster(guaranteed={"V100": 8, "P100": 8})],
            tenants=[Tenant(name="vision", quota=quota)],
        )

    def started(self, snapshot: Snapshot) -> dict[int, str]:
        return {
            job: action.placement.gpu_model
            for action in decide(snapshot).actions
            if action.placement
            for job in action.jobs
        }

    def test_caps_what_a_tenant_holds_at_once(self) -> None:
        snapshot = self.snapshot(make_job(1, 4), make_job(2, 2), quota={"*": 5}, running=1)
        assert set(self.started(snapshot)) == {1}
        reason = reason_of(snapshot, 2)
        assert (reason.code, reason.needed, reason.available) == ("quota", 2, 0)
        assert reason.message == (
            "Tenant vision has a quota of 5 GPUs; 5 are used by its jobs or reserved for jobs ahead,"
            " and this job needs 2."
        )

    def test_goes_by_priority_then_age(self) -> None:
        jobs = [make_job(1, 4), make_job(2, 4, priority=1), make_job(3, 4)]
        assert set(self.started(self.snapshot(*jobs, quota={"*": 8}))) == {1, 2}

    @pytest.mark.parametrize(
        ("guaranteed", "policy", "bound", "starts"),
        [
            (False, "fifo", 0.0, {2: "P100"}),
            (False, "las", 0.0, {2: "P100"}),
            (True, "fifo", 0.0, {2: "P100"}),
            (True, "sjf", 0.0, {2: "P100"}),
            (True, "fair", 0.0, {2: "P100"}),
            # It has room made for it.
            (True, "las", 0.0, {1: "V100"}),
            # It has waited for too long to be passed by any more.
            (True, "sjf", 60.0, {}),
        ],
    )
    def test_a_job_that_cannot_start_keeps_it_from_nobody(
        self, guaranteed: bool, policy: str, bound: float, starts: dict[int, str]
    ) -> None:
        """20 GPUs, 12 in use: of the jobs that wait the first lacks idle GPUs."""
        holders = [make_job(98, 8), make_job(99, 4, gpu_models=("P100",))]
        waiting = [
            make_job(1, 8, guaranteed=guaranteed, gpu_models=("V100",)),
            make_job(2, gpu_models=("P100",)),
        ]
        vc = make_virtual_cluster(
            guaranteed={"V100": 8, "P100": 8}, policy=policy, longest_wait_seconds=bound
        )
        snapshot = make_snapshot(
            nodes=[make_node(1), make_node(2, gpu_model="P100")],
            jobs=[*waiting, *holders],
            running=[
                make_running(holders[0], range(100, 108)),
                make_running(holders[1], range(200, 204), gpu_model="P100"),
            ],
            virtual_clusters=[vc],
            tenants=[Tenant(name="vision", quota={"*": 20})],
        )
        assert self.started(snapshot) == starts
        if 2 in starts:
            reason = reason_of(snapshot, 1)
            assert (reason.code, reason.available) == ("quota", 7)

    def test_is_free_again_only_when_processes_are_gone(self) -> None:
        """A job that shrinks to two of its four GPUs leaves the others to its tenant when they are left."""
        shrunk, waiting = make_job(1, 1, replicas=4, elastic=(1, 4)), make_job(2, 2)
        snapshot = self.snapshot(shrunk, waiting, quota={"*": 4})
        leaving = make_running(shrunk, [[100], [101], [102], [103]], stopping=True)
        smaller = make_running(shrunk, [[100], [101]], allocation=77, phase="planned")
        during = replace(snapshot, running=(leaving, smaller))
        assert 2 not in self.started(during)
        reason = reason_of(during, 2)
        assert (reason.code, reason.needed, reason.available) == ("quota", 2, 0)
        # It does not take what it gave up for itself again while another one of its tenant waits.
        gone = replace(snapshot, running=(replace(smaller, phase="held"),))
        assert set(self.started(gone)) == {2}
        # What a cancelled job still holds counts as well.
        cancelled = replace(snapshot, running=(leaving,), jobs=(replace(shrunk, cancelling=True), waiting))
        assert 2 not in self.started(cancelled)

    def test_does_not_hinder_the_fewest_gpus_of_an_elastic_job(self) -> None:
        elastic = make_job(1, 1, replicas=8, elastic=(2, 16))
        plan = decide(self.snapshot(elastic, make_job(2, 3), quota={"*": 5}))
        assert [len(action.placement.gpus) for action in plan.actions if action.placement] == [2, 3]
        assert set(self.started(self.snapshot(elastic, quota={"*": 2}))) == {1}
        assert reason_of(self.snapshot(elastic, quota={"*": 1}), 1).code == "exceeds_quota"

    def test_of_one_model_leaves_the_others(self) -> None:
        jobs = [make_job(1, 2, gpu_models=("V100", "P100")), make_job(2, 2, gpu_models=("V100",))]
        snapshot = self.snapshot(*jobs, quota={"V100": 1})
        assert self.started(snapshot) == {1: "P100"}
        assert reason_of(snapshot, 2).code == "exceeds_quota"

    def test_of_the_only_model_with_room_is_a_quota_of_all(self) -> None:
        """There is no quota of P100, but too few of them, or too few are guaranteed."""
        wide, narrow = make_job(1, 4, replicas=3, guaranteed=False), make_job(2, 6)
        facts = self.snapshot(wide, narrow, quota={"V100": 5})
        nodes = [make_node(1), make_node(3), make_node(2, gpu_model="P100")]
        clusters = [make_virtual_cluster(guaranteed={"V100": 16, "P100": 2})]
        facts = replace(facts, nodes=tuple(nodes), virtual_clusters=tuple(clusters))
        for job in (1, 2):
            reason = reason_of(facts, job)
            assert (reason.code, reason.available) == ("exceeds_quota", 5)
            assert "may hold at most 5 V100 at once" in reason.message
        assert self.started(replace(facts, jobs=(replace(narrow, guaranteed=False),))) == {2: "P100"}

    def test_lets_what_runs_go_on_when_it_is_lowered(self) -> None:
        assert decide(self.snapshot(make_job(1), quota={"*": 2}, running=4)).actions == ()

    def test_of_one_model_binds_a_job_that_has_to_move(self) -> None:
        """Its promise on P100 breaks; V100 would be free, but its tenant has no quota for those."""
        promised = make_job(1, 4)
        snapshot = self.snapshot(promised, quota={"V100": 2})
        snapshot = replace(
            snapshot,
            nodes=(make_node(1), make_node(2, gpu_model="P100", schedulable=False)),
            running=(make_running(promised, range(200, 204), gpu_model="P100", phase="planned"),),
        )
        assert self.started(snapshot) == {}

    def test_shrinks_an_elastic_gang_rather_than_hold_it_back(self) -> None:
        elastic = make_job(1, 2, replicas=3, elastic=(2, 8))
        [action] = decide(self.snapshot(elastic, quota={"*": 5})).actions
        assert action.placement is not None
        assert len(action.placement.gpus) == 4


class TestCapacity:
    def test_no_idle_gpus(self) -> None:
        holder = make_job(1, 6)
        snapshot = make_snapshot(
            jobs=[holder, make_job(2, 4, guaranteed=False)], running=[make_running(holder, range(100, 106))]
        )
        reason = reason_of(snapshot, 2)
        assert reason.message == "2 of 8 V100 are idle; this job needs 4."
        assert (reason.code, reason.needed, reason.available) == ("no_idle_gpus", 4, 2)

    def test_fragmented(self) -> None:
        holders = [make_job(number, 5, virtual_cluster="products") for number in (1, 2)]
        snapshot = make_snapshot(
            nodes=make_cluster(2),
            jobs=[*holders, make_job(3, 4)],
            running=[make_running(holder, range(100 * holder.id, 100 * holder.id + 5)) for holder in holders],
            virtual_clusters=[
                make_virtual_cluster("products", {"V100": 10}),
                make_virtual_cluster("research", {"V100": 6}),
            ],
        )
        reason = reason_of(snapshot, 3)
        assert reason.code == "fragmented"
        assert reason.message == "6 V100 are available, but not as the job needs them: 4 on one node."

    def test_topology(self) -> None:
        holders = [make_job(number, 2) for number in (1, 2)]
        near = Topology(level="socket", required=True)
        snapshot = make_snapshot(
            jobs=[*holders, make_job(3, 3, topology=near)],
            running=[make_running(holders[0], [100, 101]), make_running(holders[1], [104, 105])],
        )
        reason = reason_of(snapshot, 3)
        assert (reason.code, reason.tier) == ("topology", Tier.TOPOLOGY)
        assert reason.message == "3 V100 are available, but not within one socket, as it requires."

    def test_processors(self) -> None:
        holder = make_job(1, tasks=[Task(replicas=1, gpus=1, cpus=60.0)])
        snapshot = make_snapshot(
            nodes=[make_node(1, cpus=64.0)],
            jobs=[holder, make_job(2, tasks=[Task(replicas=1, gpus=1, cpus=8.0)])],
            running=[make_running(holder, [100])],
        )
        reason = reason_of(snapshot, 2)
        assert reason.code == "node_resources"
        assert reason.message == (
            "Nodes with enough available GPUs lack CPUs or memory: one replica needs 8 CPUs."
        )

    def test_a_single_gpu_is_spoken_of_as_one(self) -> None:
        lender = make_job(1, guaranteed=False)
        plan = decide(
            make_snapshot(
                nodes=[make_node(1, gpus=1)],
                jobs=[lender, make_job(2, tenant="speech")],
                running=[make_running(lender, [100])],
            )
        )
        stop = next(action for action in plan.actions if action.jobs == (1,))
        assert stop.message == "Its GPU was reclaimed by guaranteed job 2 of virtual cluster research."
        promised = "1 V100 is reserved for it; job 1 must release it first."
        assert [reason.message for reason in plan.reasons[2]] == [promised]

    def test_what_is_promised_says_by_whom_it_is_awaited(self) -> None:
        leaving = make_job(1, 6)
        snapshot = make_snapshot(
            jobs=[leaving, make_job(2, 4)], running=[make_running(leaving, range(100, 106), stopping=True)]
        )
        reason = reason_of(snapshot, 2)
        assert reason.message == "4 V100 are reserved for it; job 1 must release 4 of them first."
        assert (reason.code, reason.tier, reason.blocking) == (
            "waiting_for_release",
            Tier.PREPARING,
            {"jobs": [1]},
        )
