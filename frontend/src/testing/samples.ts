/** Builders of plausible objects for tests. */

import type {
  Attempt,
  Event as ClusterEvent,
  Failure,
  Gpu,
  Job,
  Line as LedgerLine,
  Node,
  Reason,
  Round,
  UsagePoint,
  VirtualCluster,
} from "@/api/schema";

const RESOURCES = { gpu: 4, gpu_model: "any", cpu: 0, memory: 0 };

export function aReason(given: Partial<Reason>): Reason {
  return {
    code: "no_idle_gpus",
    tier: "capacity",
    message: "4 V100 are needed and 2 are idle.",
    blocking: {},
    needed: 4,
    available: 2,
    hint: "",
    ...given,
  };
}

export function aJob(given: Partial<Job>): Job {
  const name = given.name ?? "digits";
  return {
    id: 1,
    name,
    tenant: "vision",
    virtual_cluster: "research",
    submitted_by: "ada",
    state: "queued",
    phase: "waiting",
    guarantee: "guaranteed",
    priority: 0,
    gpus: 4,
    gpu_models: ["V100"],
    spec: {
      name,
      priority: 0,
      guarantee: "guaranteed",
      tasks: [{ name: "main", replicas: 1, resources: RESOURCES, command: ["true"] }],
    },
    submitted_at: "2026-01-01T00:00:00Z",
    eligible_at: null,
    started_at: null,
    ended_at: null,
    attempts: 0,
    attempt: null,
    deadline_at: null,
    guarantee_lapsed: false,
    reasons: [],
    position: null,
    exit_code: null,
    message: "",
    preemptions: 0,
    service_gpu_seconds: 0,
    labels: {},
    code: null,
    cancelling: false,
    held: false,
    array: null,
    maintenance: null,
    serves: null,
    version: 1,
    ...given,
  };
}

export function anAttempt(given: Partial<Attempt>): Attempt {
  return {
    id: 1,
    number: 1,
    is_trial: false,
    state: "running",
    outcome: "",
    gpu_model: "V100",
    placement: [],
    exit_code: null,
    signal: "",
    category: "",
    failure: "",
    matched_rule: null,
    message: "",
    stop_cause: "",
    preempted_by: [],
    turn: null,
    auxiliary: null,
    enforcement: "",
    lost_seconds: null,
    planned_at: "2026-01-01T00:00:00Z",
    starting_at: null,
    running_at: null,
    stopping_at: null,
    ended_at: null,
    throughput: null,
    step: null,
    total_steps: null,
    ...given,
  };
}

export function aGpu(given: Partial<Gpu>): Gpu {
  return {
    id: 1,
    index: 0,
    socket: 0,
    switch: 0,
    memory_bytes: 16 * 2 ** 30,
    healthy: true,
    problem: "",
    state: "free",
    in_use: given.state === "held" ? 1 : 0,
    ...given,
  };
}

/** A node of `gpus` free GPUs, four to a socket and two to a switch, with ids from `id * 100`. */
export function aNode(given: Partial<Node> & { gpu_count?: number }): Node {
  const { gpu_count = 4, ...rest } = given;
  const id = rest.id ?? 1;
  return {
    id,
    name: `node-${id}`,
    rack: "rack-a",
    gpu_model: "V100",
    address: "10.0.0.1",
    state: "ready",
    cordoned: false,
    draining: false,
    drained: false,
    drain_deadline: null,
    withdrawn: null,
    loan: null,
    maintenance: null,
    health: [],
    isolation: {},
    isolation_level: "unknown",
    enforcement: "",
    cpus: 32,
    cpus_held: 0,
    memory_bytes: 256 * 2 ** 30,
    memory_bytes_held: 0,
    storage_bandwidth: 0,
    cache_bytes: 0,
    agent_version: "0.1.0",
    lease_expires_at: null,
    gpus: Array.from({ length: gpu_count }, (_, index) =>
      aGpu({ id: id * 100 + index, index, socket: Math.floor(index / 4), switch: Math.floor(index / 2) }),
    ),
    version: 1,
    ...rest,
  };
}

export function aRound(given: Partial<Round>): Round {
  return {
    number: 1,
    started_at: "2026-01-01T00:00:00Z",
    state: "applied",
    degraded: {},
    timings_ms: { snapshot: 4, decide: 2, apply: 6 },
    started: 0,
    kept: 0,
    stopped: 0,
    moved: 0,
    dropped: [],
    waiting: 0,
    error: "",
    ...given,
  };
}

export function anUsagePoint(at: string, held: number): UsagePoint {
  return { at, total: 28, held, by_tenant: { vision: held } };
}

export function aVirtualCluster(given: Partial<VirtualCluster>): VirtualCluster {
  return {
    id: 1,
    name: "research",
    title: "",
    policy_plugin: { name: "fifo", parameters: {} },
    placer_plugin: { name: "consolidate", parameters: {} },
    default_time_limit_seconds: 3600,
    sharing: "measured",
    min_run_seconds: 0,
    reclaim_min_run_seconds: 0,
    longest_wait_seconds: 0,
    overcommit: "never",
    overcommit_margin: 0.1,
    overcommit_violations: null,
    guaranteed: {},
    own_guaranteed: given.guaranteed ?? {},
    lent: [],
    borrowed: [],
    cells: {},
    pinned: {},
    members: [],
    other_members: 0,
    usage: {},
    queued: 0,
    running: 0,
    has_targets: false,
    overrun: null,
    version: 1,
    ...given,
  };
}

export function aLedgerLine(given: Partial<LedgerLine>): LedgerLine {
  return {
    id: 1,
    at: "2026-01-01T00:00:00Z",
    round_number: 7,
    view: "research",
    position: 0,
    kind: "win",
    party: "vision",
    counterparty: "",
    jobs: [],
    gpus: {},
    given: {},
    price: null,
    seconds: null,
    rho_before: null,
    rho_after: null,
    message: "",
    details: {},
    person: "",
    ...given,
  };
}

export function aFailure(given: Partial<Failure>): Failure {
  return {
    id: 1,
    job: 1,
    job_name: "digits",
    job_state: "failed",
    tenant: "vision",
    virtual_cluster: "research",
    submitted_by: "ada",
    attempt: 1,
    failure: "import_error",
    layer: "user",
    says: "a module is missing",
    message: "No module named jupyter",
    rank: null,
    exit_code: 1,
    rule: "",
    advice: "Install the module.",
    gpu_model: "V100",
    nodes: ["v100-a1"],
    ended_at: "2026-01-01T00:00:00Z",
    ...given,
  };
}

export function anEvent(given: Partial<ClusterEvent>): ClusterEvent {
  return {
    id: 1,
    at: "2026-01-01T00:00:00Z",
    kind: "job.started",
    subject: "job",
    subject_id: 7,
    from: "",
    to: "",
    actor: "round 1",
    message: "",
    data: {},
    job: 7,
    job_name: "digits",
    node: null,
    node_name: null,
    tenant: "vision",
    ...given,
  };
}
