import { expect, it } from "vitest";

import { descriptionFacts } from "@/components/job/description";
import { aJob } from "@/testing/samples";

it("is a fact only of a job that has one, with every character that acts shown", () => {
  const job = aJob({});
  expect(descriptionFacts(job)).toEqual([]);
  job.spec.description = "Reproduces the\u202e paper <b>again</b>";
  expect(descriptionFacts(job)).toEqual([["Description", "Reproduces the\ufffd paper <b>again</b>"]]);
});
