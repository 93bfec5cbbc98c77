"""Why jobs wait: each code that a reason may have, declared once.

docs/reasons.md has the table of these (`make schema`). `Reason` checks its code and tier here. A policy or
placer from outside may use codes of its own, which are in no table: these pass, and their cause is OTHER.
"""

from __future__ import annotations

from collections.abc import Mapping

from scheduler.core.model.reason_kinds import Cause, ReasonCode, Tier, never, order, waits

_DECLARED = (
    never("unknown_virtual_cluster", "its virtual cluster does not exist", "`virtual_cluster`"),
    never("not_a_member", "its tenant is not a member of the virtual cluster", "`virtual_cluster`, `tenant`"),
    never(
        "no_gpus_requested",
        "a task without replicas, or a replica that has no GPU and states neither CPUs nor memory",
    ),
    never("unknown_topology_level", "this cluster does not have the topology level"),
    never("elastic_range_wrong", "the elastic range does not fit the gang"),
    never("unknown_gpu_model", "the cluster has no GPU model that it accepts", "`gpu_models`"),
    never(
        "no_containers", "it names an image, and no node that it could use runs containers", "`gpu_models`"
    ),
    never("exceeds_quota", "larger than the quota of its tenant", "`tenant`, `quota`"),
    never(
        "exceeds_quota_resources",
        "it requests more CPUs or memory than the quota of its tenant",
        "`tenant`, `resource` (`cpus` or `memory_bytes`), `limit`",
        field="tasks.{largest}.resources",
    ),
    never(
        "exceeds_user_quota",
        "larger than the limit that an admin of its tenant set for its user",
        "`tenant`, `user`, `resource` (`gpus`, `cpus` or `memory_bytes`), `limit`",
        field="tasks.{largest}.resources",
    ),
    never(
        "exceeds_guarantee",
        "guaranteed, and larger than the virtual cluster's guarantee",
        "`virtual_cluster`",
    ),
    never("exceeds_cluster", "larger than all GPUs of the model"),
    never("exceeds_node", "a replica is larger than any node", field="tasks.{largest}.resources.gpu"),
    never(
        "exceeds_gpu_memory",
        "a replica's part of a GPU needs more memory than a device of any model that it accepts has",
        field="tasks.{largest}.resources.gpu_memory",
    ),
    never("part_wrong", "a part of more than one GPU, or a limit below the part"),
    never(
        "sharing_off",
        "it asks for parts of GPUs, and its virtual cluster never shares one",
        "`virtual_cluster`",
    ),
    never(
        "no_parts_of_instances",
        "it asks for parts of GPUs that are instances of divided GPUs (MIG) already",
        "`gpu_models`",
    ),
    never(
        "no_parts_in_cells",
        "a guaranteed job asks for parts of GPUs that are guaranteed by cells",
        "`virtual_cluster`",
    ),
    never(
        "no_cpu_tasks_in_cells",
        "a guaranteed job has tasks without GPUs where GPUs are guaranteed by cells",
        "`virtual_cluster`",
    ),
    never(
        "exceeds_node_resources",
        "a replica needs more CPUs or memory than any node has",
        field="tasks.{largest}.resources",
    ),
    never("exceeds_storage_bandwidth", "a replica reads faster than any storage", field="data.bandwidth"),
    never(
        "exceeds_topology_level",
        "larger than every group of the topology level that it requires",
        field="topology",
    ),
    never("exceeds_packing", "its replicas do not fit onto the nodes even when all are idle"),
    never(
        "exceeds_constraint",
        "a required constraint on a tag that it has itself keeps its replicas farther apart than "
        "the nodes allow, even when all are idle",
        "`tag`, `scope`",
        field="constraints",
    ),
    never(
        "exceeds_cells",
        "guaranteed, and too large for the virtual cluster's cells even when all are idle: a "
        "replica must fit into one cell, with the cell's share of CPUs and memory",
        "`virtual_cluster`",
    ),
    never(
        "unknown_pinned_cell",
        "guaranteed, and its virtual cluster has no pinned cell with this name, or none of a "
        "model it accepts",
        "`virtual_cluster`, `pinned_cell`",
        field="pinned_cell",
    ),
    never(
        "exceeds_candidates",
        "it does not fit onto the nodes that it names, or into cells of its virtual cluster "
        "there, even when all are idle; the hint names nodes that would fit",
        "`nodes`, `avoid` (names)",
        field="nodes.{names}",
    ),
    never(
        "dependency_never",
        "a job that it waits for ended in another state, and its specification has `on_unmet: wait`",
        "`jobs`",
    ),
    waits("held", Tier.HELD, Cause.OTHER, "put on hold by a member"),
    waits(
        "dependency",
        Tier.HELD,
        Cause.OTHER,
        "it waits until other jobs succeed, end, fail or start (`after` in its specification)",
        "`jobs`",
    ),
    waits(
        "array_limit",
        Tier.HELD,
        Cause.OTHER,
        "the maximum number of tasks of its array (`array.at_most`) run or are ahead of it",
        "`array`",
    ),
    waits(
        "singleton",
        Tier.HELD,
        Cause.OTHER,
        "an earlier job of its name and user has not ended (`singleton`)",
        "`jobs`",
    ),
    waits(
        "begins_later",
        Tier.HELD,
        Cause.OTHER,
        "its specification has an earliest start (`begin`)",
        "`eligible_at` (Unix seconds)",
    ),
    waits(
        "backoff",
        Tier.HELD,
        Cause.OTHER,
        "it failed, and is not tried again before `eligible_at`",
        "`eligible_at`",
    ),
    waits(
        "preempted_early",
        Tier.HELD,
        Cause.RECLAIM,
        "opportunistic, and preempted before the minimum run time of its virtual cluster: it "
        "backs off ([limits-on-preemption.md](limits-on-preemption.md))",
        "`may_borrow_at` (Unix seconds)",
    ),
    waits("cancelling", Tier.HELD, Cause.OTHER, "it is being cancelled"),
    waits("time_limit", Tier.HELD, Cause.OTHER, "it reached its time limit and is being stopped"),
    waits("policy_failed", Tier.HELD, Cause.OTHER, "the policy or placer of its view failed in this round"),
    waits(
        "quota",
        Tier.QUOTA,
        Cause.QUOTA,
        "its tenant's quota is used by, or reserved for, jobs ahead of it",
        "`tenant`, `quota`",
    ),
    waits(
        "quota_resources",
        Tier.QUOTA,
        Cause.QUOTA,
        "its tenant's quota of CPUs or memory is used by, or reserved for, jobs ahead of it",
        "`tenant`, `resource` (`cpus` or `memory_bytes`), `limit`, `held`",
    ),
    waits(
        "user_quota",
        Tier.QUOTA,
        Cause.QUOTA,
        "the user's limit in the tenant is used by, or reserved for, the user's jobs ahead of it",
        "`tenant`, `user`, `resource` (`gpus`, `cpus` or `memory_bytes`), `limit`, `held`",
    ),
    waits(
        "user_budget_spent",
        Tier.QUOTA,
        Cause.QUOTA,
        "its user's budget in the tenant is used up, and an admin lets no more start until the next period",
        "`tenant`, `user`, `renewed_at` (Unix seconds)",
    ),
    waits(
        "budget_spent",
        Tier.QUOTA,
        Cause.QUOTA,
        "its tenant's budget is used up, and an operator chose to start no more jobs of the "
        "tenant until the next period ([notifications.md](notifications.md#budgets))",
        "`tenant`, `renewed_at` (Unix seconds)",
    ),
    waits(
        "vc_guarantee_in_use",
        Tier.GUARANTEE,
        Cause.ORDER,
        "the rest of the guarantee is smaller than the job",
        "`virtual_cluster`",
    ),
    waits(
        "guarantee_lent",
        Tier.GUARANTEE,
        Cause.LENT,
        "its virtual cluster lends GPUs that it could use: names borrower and end ([market.md](market.md))",
        "`virtual_cluster`, `loans`, `until` (Unix seconds)",
    ),
    waits(
        "guarantee_gone",
        Tier.GUARANTEE,
        Cause.LENT,
        "it ran under a larger guarantee (before a loan ended or an operator reduced it) and is "
        "too large for the present one; it waits as an opportunistic job until it fits",
        "`virtual_cluster`",
    ),
    waits(
        "held_by_lapsed",
        Tier.GUARANTEE,
        Cause.RECLAIM,
        "it fits into the guarantee of its virtual cluster, but the GPUs are in use by jobs of the "
        "virtual cluster whose guarantee has lapsed; only jobs with a higher priority preempt "
        "these ([cells.md](cells.md#when-the-division-changes))",
        "`jobs`",
    ),
    ReasonCode(
        "preempted",
        (Tier.GUARANTEE, Tier.ORDER),
        Cause.RECLAIM,
        "its GPUs were claimed in this round",
        "`jobs`",
    ),
    waits(
        "guarantee_short",
        Tier.CAPACITY,
        Cause.HARDWARE,
        "within the guarantee, but broken GPUs or other jobs leave too few; names the broken "
        "nodes (with cells, only those for which the virtual cluster lacks other cells)",
        "`nodes` (names)",
    ),
    waits(
        "reclaim_later",
        Tier.CAPACITY,
        Cause.RECLAIM,
        "within the guarantee, but its GPUs are in use by opportunistic jobs that started too "
        "recently to be preempted",
        "`jobs`",
    ),
    waits(
        "node_returns",
        Tier.CAPACITY,
        Cause.HARDWARE,
        "it was stopped in this round because a node under it goes back to its serving pool",
    ),
    waits(
        "prediction_failed",
        Tier.CAPACITY,
        Cause.RECLAIM,
        "opportunistic, and it was stopped in this round because the jobs on its node use more "
        "CPUs or memory than predicted ([overcommitment.md](overcommitment.md))",
    ),
    waits("no_idle_gpus", Tier.CAPACITY, Cause.OTHER, "opportunistic, and too few GPUs are idle"),
    waits(
        "promise_lost",
        Tier.CAPACITY,
        Cause.RECLAIM,
        "the GPUs reserved for it broke, or were not released",
    ),
    waits(
        "no_part_left",
        Tier.CAPACITY,
        Cause.FRAGMENTATION,
        "no GPU has room for its part: in compute, in device memory, or for the CPUs and memory of the node",
    ),
    waits(
        "sharing_label",
        Tier.CAPACITY,
        Cause.FRAGMENTATION,
        "a GPU has room for its part, but a sharing label of this job or of a job there forbids it",
        "`label`",
    ),
    waits(
        "fragmented",
        Tier.CAPACITY,
        Cause.FRAGMENTATION,
        "enough GPUs, but not enough of them on one node; with cells, also names the broken "
        "nodes for which no other cells are available",
        "`nodes` (names)",
    ),
    waits(
        "port_in_use",
        Tier.CAPACITY,
        Cause.FRAGMENTATION,
        "another job listens at its fixed port (`ports` with a number) on the nodes that have room for it",
        "`jobs`, `nodes` (names)",
    ),
    waits(
        "candidate_nodes",
        Tier.CAPACITY,
        Cause.FRAGMENTATION,
        "there is room for it, but not on the nodes that it names (`nodes` in its specification)",
        "`nodes`, `avoid` (names)",
    ),
    ReasonCode(
        "reserved",
        (Tier.HELD, Tier.CAPACITY),
        Cause.HARDWARE,
        "its reservation has not begun; or the free GPUs are outside its reservation, or on "
        "nodes that are reserved for others before it would end "
        "([reservations.md](reservations.md))",
        "`reservations` (names), `starts_at`, `until` (Unix seconds, of the first)",
    ),
    waits("node_resources", Tier.CAPACITY, Cause.FRAGMENTATION, "nodes with enough GPUs lack CPUs or memory"),
    waits("storage_bandwidth", Tier.CAPACITY, Cause.FRAGMENTATION, "nodes with room lack storage bandwidth"),
    waits(
        "no_model_runs_it",
        Tier.CAPACITY,
        Cause.OTHER,
        "`allox`, `gavel`, `shockwave`, `themis`: its throughput is 0 on every GPU model here that it"
        " accepts",
    ),
    waits(
        "topology",
        Tier.TOPOLOGY,
        Cause.FRAGMENTATION,
        "enough GPUs, but not inside one group of the level it requires",
        "`level`",
    ),
    waits(
        "tag_constraint",
        Tier.TOPOLOGY,
        Cause.FRAGMENTATION,
        "there is room for it, but it would violate a required tag constraint, of its own or of "
        "a job there ([placers.md](placers.md#constraints-between-tags))",
        "`tag`, `scope`, `jobs`; `tags` where it is no single one",
    ),
    waits(
        "waits_for_locality",
        Tier.TOPOLOGY,
        Cause.FRAGMENTATION,
        "placer `delay`: it waits for GPUs that are closer together before it accepts others",
        "`locality`, `until` (Unix seconds)",
    ),
    order(
        "first_in_line",
        "the head of its queue; it starts by `starts_by` at the latest, according to the time "
        "limits of the running jobs",
        "`starts_by`",
    ),
    order(
        "longest_wait",
        "it has waited longer than the longest wait of its virtual cluster, and GPUs are "
        "reserved for it: it starts when `jobs` have ended, by `starts_by` at the latest if all "
        "of these have time limits "
        "([limits-on-preemption.md](limits-on-preemption.md#long-waits))",
        "`jobs`, `starts_by` (Unix seconds)",
    ),
    order(
        "behind_longest_wait",
        "GPUs that it could use are reserved for a job that has waited too long, or that job "
        "goes first; `starts_by` is the start of that job",
        "`jobs`, `starts_by` (Unix seconds)",
    ),
    order(
        "behind_own",
        "its user has more similar jobs ahead of it than could start at once",
    ),
    order("behind_head", "it fits, but starting it could delay the job at the head", "`jobs`"),
    order("shorter_first", "`sjf`, `pai`: jobs expected to run for a shorter time go first"),
    order("model_reserved", "`pai`: a GPU model that it accepts is reserved for larger jobs", "`gpu_models`"),
    order("less_service_first", "`qssf`, `lucid`: jobs expected to need less GPU time go first"),
    order(
        "waits_for_profiler",
        "`lucid`: it waits for the profiler, and jobs with fewer GPUs, or earlier ones, go first",
        "`gpus`",
    ),
    order(
        "kept_for_profiling",
        "`lucid`: GPUs that it could have are kept for new jobs, which are profiled there",
        "`gpus`",
    ),
    order("profiled", "`lucid`: its time in the profiler is over, and it waits in the queue"),
    order("earlier_first", "`iadeep`: higher priorities, and jobs that came earlier, go before it"),
    order(
        "higher_priority_first",
        "`priority`, `orion`, `slaq`: higher priorities, and earlier jobs of its own, go before it",
    ),
    order(
        "less_service_left_first", "`muri`: jobs, or groups that share GPUs, with less GPU time left go first"
    ),
    order("less_service_had_first", "`muri` without durations: those that had less GPU time go first"),
    order(
        "less_left_first", "`srtf`, `aryl`: jobs with less time left go first, or preemption would not pay"
    ),
    order("less_served_first", "`las`: jobs that received fewer GPU-seconds go first"),
    order("queue_of_service", "`tiresias`: jobs of earlier queues, and earlier ones of its own, go first"),
    order(
        "dominant_share", "`drf`: tenants with a smaller dominant share for their weight go first", "`tenant`"
    ),
    order("fair_share", "`fair`: tenants that had fewer GPUs for their weight go first", "`tenant`"),
    order(
        "planned_later",
        "`allox`: in the plan with the earliest mean end, others go first, maybe on a model that is busy now",
        "`gpu_model`",
    ),
    order(
        "less_progress_first",
        "`allox`: tenants that make less progress for their weight go first",
        "`tenant`",
    ),
    order(
        "behind_target_first",
        "`gavel`, `gandiva_fair`: others are further behind their target share of GPU time in this lease;"
        " without a target it gets idle GPUs only",
        "`targets` (share by model)",
    ),
    order(
        "later_round",
        "`shockwave`: its rounds in the plan come later, or its GPUs in the plan are not free yet",
    ),
    order(
        "no_round_yet",
        "`shockwave`: others gain more from the coming rounds; the later it is, the more it counts",
    ),
    order("later_slice", "`gandiva`: jobs take turns, and others run in this time slice"),
    order("less_goodput", "`sia`: others make more progress with the GPUs in this round of the policy"),
    order(
        "tiers",
        "`singularity`: higher tiers, and jobs further below the fraction of their demand that is"
        " guaranteed to them, go first",
        "`tier`, `fraction` (received lately, 0 to 1), `guaranteed` (0 to 1)",
    ),
    order(
        "outbid",
        "`themis`: it bid in the last auction, and the bids of others were worth more together",
        "`rho` (without), `rho_bid` (with its best row), `rank` and `apps` (how many want GPUs)",
    ),
    order(
        "outside_auction",
        "`themis`: others were worse off at the last auction, or it fits on nothing that was on offer",
        "`rho`, `rank`, `apps`",
    ),
    order(
        "next_cycle",
        "`pollux`, `sia`: other jobs make more progress with the GPUs now; all jobs are considered again in"
        " the next cycle",
    ),
    order(
        "fewest_first",
        "`optimus`: jobs ahead of it have their minimum of GPUs, and no more are free",
    ),
    order(
        "leased",
        "`themis`: the GPUs are leased to others",
        "`until` (Unix seconds), when the next lease ends",
    ),
    order(
        "minimum_run",
        "it would use GPUs of jobs that have not yet reached the minimum run time before "
        "preemption of their virtual cluster",
        "`jobs`, `until` (Unix seconds)",
    ),
    order(
        "preemption_budget",
        "the round would have to preempt more jobs than the limit per round allows",
        "`preemptions_per_round`",
    ),
    order("not_chosen", "it fits, but the policy of its view chose other jobs"),
    waits(
        "stopping", Tier.PREPARING, Cause.RECLAIM, "its previous attempt has not ended yet", "`allocations`"
    ),
    waits(
        "waiting_for_release",
        Tier.PREPARING,
        Cause.RECLAIM,
        "GPUs, or CPUs and memory, are reserved for it but still being released",
        "`jobs`",
    ),
)

REASONS: Mapping[str, ReasonCode] = {each.code: each for each in _DECLARED}
#: By code, for the check of each reason when it is made.
TIERS: Mapping[str, tuple[Tier, ...]] = {each.code: each.tiers for each in _DECLARED}
