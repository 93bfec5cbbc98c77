import { describe, expect, it } from "vitest";

import type { ThroughputRow } from "@/api/schema";
import { jobClassOf, throughputText } from "@/components/throughputs/sources";
import {
  describe as describeThroughput,
  importSentence,
  keyOf,
  modelsOf,
  valueText,
} from "@/features/throughputs/rows";

const row: ThroughputRow = {
  tenant: "vision",
  application: "resnet50",
  gpus: 4,
  spread: true,
  partner: "",
  gpu_limit: 1,
  may_correct: true,
  throughputs: ["K80", "V100"].map((gpu_model) => ({
    gpu_model,
    value: null,
    source: null,
    samples: 0,
    confidence: 0,
    relative: null,
    measured: null,
    declared: null,
    correction: null,
  })),
};

describe("rows of throughputs", () => {
  it("show every model that some row knows, once", () => {
    const other = {
      ...row,
      throughputs: [...row.throughputs.slice(1), ...row.throughputs.map((each) => ({ ...each, gpu_model: "A100" }))],
    };
    expect(modelsOf([row, other])).toEqual(["K80", "V100", "A100"]);
  });

  it("are told apart by their setting and not by their values", () => {
    expect(keyOf(row)).toBe(keyOf({ ...row, throughputs: [] }));
    expect(keyOf(row)).not.toBe(keyOf({ ...row, spread: false }));
    expect(keyOf(row)).not.toBe(keyOf({ ...row, gpu_limit: 0.5 }));
  });

  it("are described in full", () => {
    expect(describeThroughput(row, "V100")).toBe("resnet50 of vision on 4 V100, spread over nodes");
    expect(describeThroughput({ ...row, spread: false, application: "name:lm", partner: "a3c" }, "K80")).toBe(
      "lm of vision on 4 K80, sharing them with a3c",
    );
    expect(describeThroughput({ ...row, spread: false, partner: "a3c+bert+name:lm" }, "K80")).toBe(
      "resnet50 of vision on 4 K80, sharing them with a3c, bert and lm",
    );
    expect(describeThroughput({ ...row, spread: false, gpus: 1, gpu_limit: 0.6 }, "V100")).toBe(
      "resnet50 of vision on 1 V100, held to 60 % of each",
    );
  });

  it("have values with three digits that count; beside a partner a part", () => {
    expect([throughputText(1234.56), throughputText(81.26), throughputText(0.08126)]).toEqual([
      "1,235",
      "81.3",
      "0.0813",
    ]);
    expect(valueText(row, 0)).toBe("does not run");
    expect(valueText({ partner: "a3c" }, 0.62)).toBe("62 %");
  });

  it("know a kind that is only a name", () => {
    expect(jobClassOf("name:digits")).toEqual({ name: "digits", byName: true });
    expect(jobClassOf("resnet50")).toEqual({ name: "resnet50", byName: false });
  });
});

describe("what an import does", () => {
  it("is told before and after", () => {
    const result = { added: 12, changed: 1, unchanged: 5 };
    expect(importSentence({ dry_run: true, ...result })).toBe(
      "12 throughputs would be added, 1 throughput would be changed, 5 unchanged.",
    );
    expect(importSentence({ dry_run: false, added: 0, changed: 1, unchanged: 0 })).toBe("1 throughput was changed.");
  });

  it("is nothing when all is known", () => {
    expect(importSentence({ dry_run: true, added: 0, changed: 0, unchanged: 5 })).toBe(
      "Nothing changes: 5 throughputs in the file equal the known ones.",
    );
  });
});
