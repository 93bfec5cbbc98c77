import { describe, expect, it } from "vitest";

import { filtersOf, isFiltered, type JobSearch, readJobSearch, statesOf } from "@/components/job-search";

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

  it("is not filtered by what is no filter, so that all jobs are never changed as those that match", () => {
    // The router hands on what it does not know of an address.
    const unknown = { state: "nonsense", within: "3y", page: "3" } as JobSearch;
    expect(isFiltered(unknown)).toBe(false);
    expect(isFiltered({ sort: "name", group: "user" })).toBe(false);
    expect(isFiltered({ state: "queued" })).toBe(true);
    expect(isFiltered({ within: "24h" })).toBe(true);
    expect(isFiltered({ q: "x" })).toBe(true);
  });

  it("translates to the API's names", () => {
    expect(filtersOf({ vc: "research", model: "V100", by: "ada" })).toMatchObject({
      virtual_cluster: "research",
      gpu_model: "V100",
      submitted_by: "ada",
    });
  });
});
