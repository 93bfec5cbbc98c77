import { describe, expect, it } from "vitest";

import type { NodeCheck } from "@/api/schema";
import { checkTitle, loanText, withdrawnText, worstFirst, worstVerdict } from "@/features/nodes/health";
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
        " It returns by itself when its checks have been ok for a while.",
    );
    expect(withdrawnText(aNode({}), NOW)).toBeNull();
  });

  it("says when it will be emptied, and what starts there meanwhile", () => {
    const withdrawn = { by: "user olga", why: "new fans", since, returns_itself: false };
    const closing = { withdrawn, draining: true, drain_deadline: "2026-01-01T14:00:00Z" };
    const text = withdrawnText(aNode(closing), NOW);
    expect(text).toContain("olga announced that it is to be emptied, 30 min ago: new fans.");
    expect(text).toContain("in 2 h; until then only what will have ended by then is started.");
    expect(withdrawnText(aNode({ ...closing, cordoned: true }), NOW)).toContain("until then nothing new starts.");
  });
});

describe("a node of a serving pool", () => {
  const loan = { pool: "chat", by: "user olga", why: "a busy evening.", since: null, until: null, return_by: null };

  it("says who has it, and when it goes back", () => {
    expect(loanText(aNode({}), NOW)).toBeNull();
    expect(loanText(aNode({ loan: { ...loan, state: "serving" } }), NOW)).toContain("Serving pool chat has this node");
    expect(loanText(aNode({ loan: { ...loan, state: "lent", by: "", why: "" } }), NOW)).toBe(
      "Serving pool chat lends this node. It may be asked back at any time.",
    );
    const returning = { ...loan, state: "returning" as const, return_by: "2026-01-01T12:05:00Z" };
    expect(loanText(aNode({ loan: returning }), NOW)).toMatch(
      /^The node returns to serving pool chat by .*, asked back by olga: a busy evening\. Nothing new starts/,
    );
  });
});
