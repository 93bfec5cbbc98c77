import { describe, expect, it } from "vitest";
import { parse } from "yaml";

import { writeSpec } from "@/components/spec-text";

describe("a stored specification", () => {
  it("is written without its defaults, and means the same", () => {
    const stored = {
      name: "digits",
      virtual_cluster: null,
      priority: 0,
      guarantee: "guaranteed",
      tasks: [
        { name: "main", replicas: 1, resources: { gpu: 1, cpu: 0, memory: 4 * 2 ** 30 }, command: ["true"], env: {} },
      ],
      time_limit: 5400,
      retry: { max_attempts: 3 },
      labels: {},
    };
    expect(parse(writeSpec(stored))).toEqual({
      name: "digits",
      guarantee: "guaranteed",
      tasks: [{ name: "main", replicas: 1, resources: { gpu: 1, cpu: 0, memory: "4GiB" }, command: ["true"] }],
      time_limit: "90m",
    });
  });

  it("still asks for no mail where it asks for none", () => {
    expect(parse(writeSpec({ name: "digits", notify: { email: [] } }))).toEqual({
      name: "digits",
      notify: { email: [] },
    });
    expect(parse(writeSpec({ name: "digits", notify: { email: null }, labels: [] }))).not.toHaveProperty("labels");
  });
});
