import { describe, expect, it } from "vitest";

import { isolationText, isolationWarning, limitsText, runsUnisolated } from "@/features/nodes/isolation";
import { aNode } from "@/testing/samples";

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
    expect(isolationWarning(node)).toContain("the platform’s");
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
});
