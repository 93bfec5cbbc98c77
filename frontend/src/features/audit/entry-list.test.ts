import { describe, expect, it } from "vitest";

import { differences } from "@/features/audit/entry-list";

describe("differences", () => {
  it("puts what was beside what is, field by field", () => {
    expect(differences({ gpus: 4, labels: {} }, { gpus: 9, is_active: false })).toEqual([
      { field: "gpus", before: "4", after: "9" },
      { field: "is active", before: null, after: "false" },
      { field: "labels", before: "{}", after: null },
    ]);
  });

  it("says that a field was empty, and tells that from a field that is not told of", () => {
    expect(differences({ title: "" }, { title: "Red team" })).toEqual([
      { field: "title", before: "nothing", after: "Red team" },
    ]);
    expect(differences(null, null)).toEqual([]);
  });

  it("shows the single values of old entries", () => {
    expect(differences("member", "viewer")).toEqual([{ field: "value", before: "member", after: "viewer" }]);
  });
});
