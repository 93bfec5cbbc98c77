import { describe, expect, it } from "vitest";

import { filtersOf, readJobSearch, statesOf } from "@/components/job-search";

describe("the job list's address", () => {
  it("keeps known filters and drops the rest", () => {
    expect(readJobSearch({ state: "running,nonsense,queued", q: 42, page: "3", tenant: "" })).toEqual({
      state: "queued,running",
      q: "42",
    });
  });

  it("asks for every state when none is named", () => {
    expect(statesOf(readJobSearch({ state: "nonsense" }))).toEqual([]);
  });

  it("translates to the API's names", () => {
    expect(filtersOf({ vc: "research", model: "V100", by: "ada" })).toMatchObject({
      virtual_cluster: "research",
      gpu_model: "V100",
      submitted_by: "ada",
    });
  });
});
