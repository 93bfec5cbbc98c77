import { describe, expect, it } from "vitest";

import { CROPS, tenantSlots } from "@/components/tenant-colour";

describe("tenants' colours", () => {
  it("differ as long as there are enough", () => {
    const names = ["vision", "speech", "robotics", "nlp", "chem", "bio", "fin", "ops"];
    expect(new Set(tenantSlots(names).values()).size).toBe(CROPS);
  });

  it("do not depend on the order of the names", () => {
    expect(tenantSlots(["b", "a", "c"])).toEqual(tenantSlots(["c", "b", "a"]));
  });

  it("are shared, not missing, when there are more tenants than colours", () => {
    const slots = tenantSlots(Array.from({ length: 30 }, (_, index) => `tenant-${index}`));
    expect(slots.size).toBe(30);
    for (const slot of slots.values()) expect(slot).toBeGreaterThan(0);
  });
});
