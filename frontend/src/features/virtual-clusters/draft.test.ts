import { describe, expect, it } from "vitest";

import { bodyOf, draftOf } from "@/features/virtual-clusters/draft";
import { aVirtualCluster } from "@/testing/samples";

const cluster = aVirtualCluster({
  title: "Research",
  policy_plugin: { name: "fifo", parameters: { backfill: false } },
  placer_plugin: { name: "delay", parameters: { relax_after_seconds: 600 } },
  guaranteed: { V100: 12 },
  own_guaranteed: { V100: 8 },
  members: [{ tenant: "vision", weight: 2 }],
  version: 7,
});

describe("the form of a virtual cluster", () => {
  it("sends back what it was given", () => {
    expect(bodyOf(draftOf(cluster))).toEqual({
      title: "Research",
      policy_plugin: { name: "fifo", parameters: { backfill: false } },
      placer_plugin: { name: "delay", parameters: { relax_after_seconds: 600 } },
      default_time_limit_seconds: 3600,
      min_run_seconds: 0,
      reclaim_min_run_seconds: 0,
      guaranteed: { V100: 8 },
      members: [{ tenant: "vision", weight: 2 }],
    });
  });

  it("leaves out models without a guarantee and tenants that are not members", () => {
    const draft = {
      ...draftOf(null),
      guaranteed: { V100: 0, P100: undefined, K80: 2 },
      members: { a: 1, b: undefined },
    };
    expect(bodyOf(draft)).toMatchObject({
      guaranteed: { K80: 2 },
      members: [{ tenant: "a", weight: 1 }],
    });
  });

  it("leaves to the cells what is guaranteed of models that they divide", () => {
    const draft = { ...draftOf(cluster), guaranteed: { V100: 8, K80: 2 } };
    expect(bodyOf(draft, ["V100"])).toMatchObject({ guaranteed: { K80: 2 } });
  });
});
