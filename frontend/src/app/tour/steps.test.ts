import { describe, expect, it } from "vitest";

import { stepsFor } from "@/app/tour/steps";

const me = {
  user: { username: "ada", email: "" },
  is_operator: false,
  saw_tour: false,
  tenants: [{ name: "vision", role: "member" as const }],
  csrf_token: "",
};

describe("the steps on a small screen", () => {
  it("are without the palette, and say that the menu leads to the others", () => {
    const steps = stepsFor(me, false);
    expect(steps.map(({ title }) => title)).not.toContain("Go anywhere");
    const led = steps.filter(({ text }) => text.endsWith("This menu leads there."));
    expect(led.map(({ title }) => title)).toEqual(["Submit a job", "Help and documentation"]);
    expect(stepsFor(me, true).some(({ text }) => text.includes("This menu"))).toBe(false);
  });
});
