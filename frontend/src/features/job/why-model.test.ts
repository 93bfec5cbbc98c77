import { describe, expect, it } from "vitest";

import type { JobModelThroughput, JobThroughputs } from "@/api/schema";
import {
  explainsModel,
  modelsWithFacts,
  profileSentence,
  throughputSentence,
  targetSentence,
} from "@/features/job/why-model";

function aModel(
  gpu_model: string,
  throughput: number | null,
  given: Partial<JobModelThroughput> = {},
): JobModelThroughput {
  return {
    gpu_model,
    price_per_hour: 1,
    accepted: true,
    throughput,
    relative: null,
    source: "measured",
    samples: 3,
    confidence: 0.9,
    target_share: null,
    received_seconds: null,
    received_share: null,
    attained_gpu_seconds: 0,
    attained_share: null,
    runs_now: false,
    ...given,
  };
}

/** What the API still answers and no page looks at. */
const ALIASES = { policy: "" };

function throughputsOf(...models: JobModelThroughput[]): JobThroughputs {
  return {
    ...ALIASES,
    job: 1,
    tenant: "vision",
    application: "transformer",
    gpus: 1,
    view: "shared",
    policy_plugin: { name: "gavel", parameters: { objective: "max_min" } },
    objective: "max_min",
    decided_at: null,
    models,
    profile: null,
  };
}

const RUNS = { runs_now: true };

describe("why a job is on its GPU model", () => {
  it("compares where it runs with the slowest", () => {
    expect(throughputSentence(throughputsOf(aModel("K80", 100), aModel("V100", 490, RUNS)))).toBe(
      "Runs on V100, its fastest: it is 4.9 times as fast there as on K80.",
    );
  });

  it("says what it would gain elsewhere", () => {
    const models = [aModel("K80", 100), aModel("P100", 320, RUNS), aModel("V100", 640)];
    expect(throughputSentence(throughputsOf(...models))).toBe(
      "Runs on P100: it is 3.2 times as fast there as on K80. On V100 it would be 2 times as fast.",
    );
    expect(throughputSentence(throughputsOf(aModel("K80", 100, RUNS), aModel("V100", 490)))).toBe(
      "Runs on K80, its slowest. On V100 it would be 4.9 times as fast.",
    );
  });

  it("tells of a job that waits where it would be best off", () => {
    expect(throughputSentence(throughputsOf(aModel("K80", 100), aModel("V100", 490)))).toBe(
      "Not running now. It is fastest on V100: 4.9 times as fast as on K80.",
    );
  });

  it("compares only models that the job may use and runs on", () => {
    const models = [aModel("A100", 900, { accepted: false }), aModel("K80", 0), aModel("V100", 490, RUNS)];
    expect(throughputSentence(throughputsOf(...models))).toBe("Runs on V100, the only model that suits it.");
  });

  it("does not compare with what is only assumed", () => {
    const models = [aModel("K80", 100, { source: "assumed" }), aModel("P100", 100, RUNS)];
    expect(throughputSentence(throughputsOf(...models))).toBe(
      "Runs on P100. Its throughput is known on P100 only, and assumed to be the same on others.",
    );
    const elsewhere = [aModel("K80", 100), aModel("P100", 100, { source: "assumed", ...RUNS }), aModel("V100", 490)];
    expect(throughputSentence(throughputsOf(...elsewhere))).toBe(
      "Runs on P100, where its throughput is not known yet. It is fastest on V100: 4.9 times as fast as on K80.",
    );
  });

  it("does not make much of small differences or of nothing", () => {
    expect(throughputSentence(throughputsOf(aModel("K80", 100, RUNS), aModel("V100", 102)))).toBe(
      "Runs on K80; it is equally fast on every model that it may use.",
    );
    expect(throughputSentence(throughputsOf(aModel("K80", null, RUNS), aModel("V100", null)))).toMatch(
      /Its throughputs are not known/,
    );
  });
});

describe("what the policy means to give it", () => {
  it("lists targets and what it had, the largest first", () => {
    const models = [
      aModel("K80", 100, { target_share: 0.2, received_share: 0.5 }),
      aModel("P100", 200, { target_share: 0, received_share: 0 }),
      aModel("V100", 490, { target_share: 0.45, received_share: 0.3 }),
    ];
    expect(targetSentence(throughputsOf(...models))).toBe(
      "Its target is 45 % of the time on V100 and 20 % on K80. " +
        "Since the last targets it had 50 % of the time on K80 and 30 % on V100.",
    );
  });

  it("says so when it has none, or when there are no targets at all", () => {
    expect(targetSentence(throughputsOf(aModel("K80", 100, { target_share: 0 })))).toMatch(
      /Its target is 0 for now.*it had none/,
    );
    const fifo = { name: "fifo", parameters: { backfill: false } };
    expect(targetSentence({ ...throughputsOf(aModel("K80", 100)), policy_plugin: fifo })).toBe(
      "Policy fifo sets no targets by GPU model.",
    );
  });
});

describe("a job's profile", () => {
  it("is said with what is known, whose it is, and what follows where there is none", () => {
    expect(profileSentence({ profile: null })).toContain("do not let it share GPUs");
    const profile = {
      utilisation: 0.35,
      memory_utilisation: null,
      memory_bytes: 2 * 2 ** 30,
      amp: true,
      stages: [0.4, 0.2, 0.1],
      is_own: false,
    };
    expect(profileSentence({ profile })).toBe(
      "Profile, of jobs like it: computes 35 % of the time; occupies 2 GiB of a GPU; 0.4 s of an iteration on storage, 0.2 s on the GPU, 0.1 s on the network; mixed precision.",
    );
  });
});

describe("what there is to show", () => {
  it("leaves out models of which only name and price are known", () => {
    const models = [aModel("K80", null, { source: null }), aModel("P100", 100), aModel("V100", null, RUNS)];
    expect(modelsWithFacts(throughputsOf(...models)).map(({ gpu_model: model }) => model)).toEqual(["P100", "V100"]);
  });

  it("is nothing for a job that waits and of which no throughput, target or profile is known", () => {
    const nothing = throughputsOf(aModel("K80", null, { source: null }), aModel("V100", null, { source: null }));
    expect(explainsModel(nothing)).toBe(false);
    expect(explainsModel(throughputsOf(aModel("K80", null, { attained_gpu_seconds: 5 })))).toBe(true);
    expect(explainsModel(throughputsOf(aModel("K80", null, { target_share: 0 })))).toBe(true);
  });
});
