import { describe, expect, it } from "vitest";

import type { JobTargets, TenantTargets } from "@/api/schema";
import { gpusText, isLeftOver, meantFor, modelsOf } from "@/features/targets/job-table";

const tenants: TenantTargets[] = [
  { tenant: "vision", jobs: 2, gpus: { V100: 1.25, K80: 0.5 } },
  { tenant: "others", jobs: 1, gpus: { P100: 1, V100: 0.5 } },
];

describe("targets of a virtual cluster", () => {
  it("have a column for each model that is guaranteed or meant for somebody", () => {
    expect(modelsOf({ V100: 2, A100: 1 }, tenants)).toEqual(["A100", "K80", "P100", "V100"]);
  });

  it("add up over tenants", () => {
    expect(meantFor(tenants, "V100")).toBe(1.75);
    expect(meantFor(tenants, "A100")).toBe(0);
    expect([gpusText(1.25), gpusText(0.001), gpusText(undefined)]).toEqual(["1.3", "–", "–"]);
  });

  it("tell who has no time of its own", () => {
    const job: JobTargets = {
      job: 1,
      name: "digits",
      tenant: "vision",
      application: "",
      gpus: 1,
      gpu_model: null,
      targets: { V100: 0, K80: 1e-9 },
      received: {},
    };
    expect(isLeftOver(job)).toBe(true);
    expect(isLeftOver({ ...job, targets: { V100: 0, K80: 0.2 } })).toBe(false);
  });
});
