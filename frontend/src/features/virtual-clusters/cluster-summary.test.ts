import { describe, expect, it } from "vitest";

import { lending, preempted } from "@/features/virtual-clusters/cluster-summary";
import { aVirtualCluster } from "@/testing/samples";

describe("what a virtual cluster lends of nodes", () => {
  const lends = { overcommit: "predicted", overcommit_margin: 0.15 } as const;

  it("says that nothing was measured yet", () => {
    expect(lending(aVirtualCluster(lends))).toBe(
      "beyond the predicted peak and 15% of each node; nothing measured yet",
    );
  });

  it("says how often more was used than was predicted", () => {
    const violations = { samples: 4000, exceeded: 5, rate: 0.00125 };
    expect(lending(aVirtualCluster({ ...lends, overcommit_violations: violations }))).toContain(
      "exceeded in 0.13% of 4,000 samples of 7 days",
    );
  });
});

describe("preemptions of a virtual cluster", () => {
  const none = { hours: 24, preemptions: 0, lost_gpu_hours: 0, overhead_gpu_hours: 0 };

  it("names no cost where there is none", () => {
    expect(preempted(none)).toBe("never in the last 24 hours");
    expect(preempted({ ...none, preemptions: 2 })).toBe("2 times in the last 24 hours");
  });

  it("counts lost work and restarts together, small ones in seconds", () => {
    const once = { ...none, preemptions: 1 };
    expect(preempted({ ...once, lost_gpu_hours: 0.001, overhead_gpu_hours: 0.0015 })).toBe(
      "1 time in the last 24 hours; lost work and restarts: 9 GPU s",
    );
    expect(preempted({ ...once, lost_gpu_hours: 1, overhead_gpu_hours: 0.5 })).toContain("1.5 GPU h");
  });
});
