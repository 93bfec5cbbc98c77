import { describe, expect, it } from "vitest";

import { lending } from "@/features/virtual-clusters/cluster-summary";
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
