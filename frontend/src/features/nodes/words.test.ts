import { describe, expect, it } from "vitest";

import type { NodeCheck } from "@/api/schema";
import {
  checkTitle,
  gpusOfNode,
  isolationText,
  isolationWarning,
  limitsText,
  partsText,
  loanText,
  runsUnisolated,
  withdrawnText,
  worstFirst,
  worstVerdict,
} from "@/features/nodes/words";
import { aNode } from "@/testing/samples";

const NOW = Date.parse("2026-01-01T12:00:00Z");

function aCheck(given: Partial<NodeCheck>): NodeCheck {
  return { name: "clock", verdict: "ok", message: "", gpu: null, since: "2026-01-01T11:00:00Z", ...given };
}

describe("checks", () => {
  it("are as bad as the worst of them", () => {
    expect(worstVerdict([])).toBeNull();
    expect(worstVerdict([aCheck({}), aCheck({ verdict: "warning" })])).toBe("warning");
    const checks = [aCheck({}), aCheck({ name: "gpu-1", verdict: "failed", gpu: 1 }), aCheck({ verdict: "warning" })];
    expect(worstVerdict(checks)).toBe("failed");
    expect(worstFirst(checks).map(({ verdict }) => verdict)).toEqual(["failed", "warning", "ok"]);
  });

  it("have titles", () => {
    expect(checkTitle({ name: "checkpoint_folder", gpu: null })).toBe("Checkpoint folder");
    expect(checkTitle({ name: "gpu-3", gpu: 3 })).toBe("GPU 3");
  });
});

describe("a node out of service", () => {
  const since = "2026-01-01T11:30:00Z";

  it("says who did it, why, and that it returns", () => {
    const withdrawn = { by: "health", why: "work_folder: /work is full.", since, returns_itself: true };
    expect(withdrawnText(aNode({ cordoned: true, withdrawn }), NOW)).toBe(
      "The platform took it out of service, 30 min ago: work_folder: /work is full." +
        " It returns automatically after its checks have passed for a while.",
    );
    expect(withdrawnText(aNode({}), NOW)).toBeNull();
  });

  it("says when it will be emptied, and what starts there meanwhile", () => {
    const withdrawn = { by: "user olga", why: "new fans", since, returns_itself: false };
    const closing = { withdrawn, draining: true, drain_deadline: "2026-01-01T14:00:00Z" };
    const text = withdrawnText(aNode(closing), NOW);
    expect(text).toContain("olga announced a drain, 30 min ago: new fans.");
    expect(text).toContain("in 2 h; until then only jobs that end by then start.");
    expect(withdrawnText(aNode({ ...closing, cordoned: true }), NOW)).toContain("until then nothing new starts.");
  });
});

describe("a node of a serving pool", () => {
  const loan = { pool: "chat", by: "user olga", why: "a busy evening.", since: null, until: null, return_by: null };

  it("says who has it, and when it goes back", () => {
    expect(loanText(aNode({}), NOW)).toBeNull();
    expect(loanText(aNode({ loan: { ...loan, state: "serving" } }), NOW)).toContain("Serving pool chat has this node");
    expect(loanText(aNode({ loan: { ...loan, state: "lent", by: "", why: "" } }), NOW)).toBe(
      "Serving pool chat lends this node. The pool may recall it at any time.",
    );
    const returning = { ...loan, state: "returning" as const, return_by: "2026-01-01T12:05:00Z" };
    expect(loanText(aNode({ loan: returning }), NOW)).toMatch(
      /^The node returns to serving pool chat by .*, asked back by olga: a busy evening\. Nothing new starts/,
    );
  });
});

const LIMITS = { cpu: true, memory: true, processes: true, open_files: true, disk: false };

describe("what isolates jobs", () => {
  it("is a sandbox, with users of their own or without", () => {
    const node = aNode({ isolation: { ...LIMITS, sandbox: true, user: true }, isolation_level: "sandbox" });
    expect(isolationText(node)).toBe("In a sandbox, as users of their tenants’");
    expect(isolationWarning(node)).toBeNull();
    const shared = aNode({ isolation: { ...LIMITS, sandbox: true, container: true }, isolation_level: "sandbox" });
    expect(isolationText(shared)).toBe("In a sandbox, all as the agent’s user; those with an image in a container");
  });

  it("is Landlock, which says where the kernel is too old for signals", () => {
    const isolation = { ...LIMITS, landlock: true, signals: true };
    expect(isolationText(aNode({ isolation, isolation_level: "landlock" }))).toBe(
      "Kept to their files by Landlock, all as the agent’s user",
    );
    expect(isolationWarning(aNode({ isolation, isolation_level: "landlock" }))).toBeNull();
    const old = aNode({ isolation: { ...isolation, signals: false }, isolation_level: "landlock" });
    expect(isolationWarning(old)).toContain("from ending other tenants’ jobs");
  });

  it("is nothing, and then that is said", () => {
    const node = aNode({ isolation: { ...LIMITS, required: false }, isolation_level: "none" });
    expect(runsUnisolated(node)).toBe(true);
    expect(isolationText(node)).toBe("Without isolation, all as the agent’s user");
    expect(isolationWarning(node)).toContain("of the platform");
    const health = [{ name: "isolation", verdict: "failed" as const, message: "", gpu: null, since: "" }];
    expect(isolationWarning({ ...node, health })).toBeNull();
    const unable = aNode({ isolation: { ...LIMITS, required: true }, isolation_level: "none" });
    expect(runsUnisolated(unable)).toBe(false);
    expect(isolationText(unable)).toBe("Nothing isolates jobs, so none starts");
    expect(isolationText(aNode({ isolation: {}, isolation_level: "unknown" }))).toBe("–");
  });

  it("names limits for what they limit, also of older agents", () => {
    expect(limitsText(aNode({ isolation: LIMITS }))).toBe("CPU, memory, processes, open files");
    expect(limitsText(aNode({ isolation: { files: true } }))).toBe("open files");
    expect(limitsText(aNode({ isolation: {} }))).toBe("–");
  });

  it("say how jobs are held to parts of GPUs", () => {
    expect(partsText(aNode({ enforcement: "enforced" }))).toBe("Enforced by the node");
    expect(partsText(aNode({ enforcement: "cooperative" }))).toContain("that ask for their time");
    expect(partsText(aNode({ enforcement: "placement_only" }))).toContain("nothing enforces the parts");
    expect(partsText(aNode({ enforcement: "" }))).toBe("–");
  });
});

it("says of a node without GPUs that it has none", () => {
  expect(gpusOfNode(aNode({ gpus: [], gpu_model: null, state: "ready" }))).toBe("no GPUs");
  expect(gpusOfNode(aNode({ gpus: [], gpu_model: null, state: "new" }))).toBe("not reported yet");
  expect(gpusOfNode(aNode({ gpus: [], gpu_model: "V100", state: "ready" }))).toBe("0 × V100");
});
