import { describe, expect, it } from "vitest";

import { attemptLook } from "@/components/state-badge";
import { anAttempt } from "@/testing/samples";

describe("the state of an attempt", () => {
  it("is preempted where its GPUs went to others", () => {
    const ended = anAttempt({ state: "ended", outcome: "preempted", stop_cause: "preempted" });
    expect(attemptLook(ended).text).toBe("Preempted");
    expect(attemptLook(anAttempt({ state: "stopping", stop_cause: "preempted" })).text).toBe("Stopping");
  });

  it("is resized or moved where its job goes on at once", () => {
    const words = (["resized", "migrated"] as const).flatMap((stop_cause) => [
      attemptLook(anAttempt({ state: "stopping", stop_cause })).text,
      attemptLook(anAttempt({ state: "ended", outcome: "preempted", stop_cause })).text,
    ]);
    expect(words).toEqual(["Resizing", "Resized", "Moving", "Moved"]);
  });

  it("is what it came to where it ended by itself meanwhile", () => {
    const done = anAttempt({ state: "ended", outcome: "succeeded", stop_cause: "resized" });
    expect(attemptLook(done).text).toBe("Succeeded");
  });
});
