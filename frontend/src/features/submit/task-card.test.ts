import { describe, expect, it } from "vitest";

import { commandText, environmentText, partHint, readEnvironment } from "@/features/submit/task-card";

describe("commands", () => {
  it("show a shell line as it is, and quote the words of an argument list", () => {
    expect(commandText("python train.py")).toBe("python train.py");
    expect(commandText(["sh", "-c", "echo $HOME"])).toBe("echo $HOME");
    expect(commandText(["python", "-c", "print('a b')"])).toBe(`python -c 'print('\\''a b'\\'')'`);
    expect(commandText(undefined)).toBe("");
  });
});

describe("environments", () => {
  it("go to lines and back", () => {
    const env = { LR: "0.1", FLAGS: "a=b c" };
    expect(readEnvironment(environmentText(env))).toEqual(env);
    expect(readEnvironment("  \n")).toBeUndefined();
    expect(readEnvironment("DEBUG")).toEqual({ DEBUG: "" });
  });
});

describe("parts of GPUs", () => {
  const model = (enforced: number, cooperative = 0, placement_only = 0) => ({
    part_enforcement: { enforced, cooperative, placement_only },
  });

  it("are said to be held in one way, or in which on how many GPUs", () => {
    expect(partHint([model(8), model(4)])).toBe("Part: enforced");
    expect(partHint([model(8), model(0, 4), model(0, 2, 3)])).toBe(
      "Part: enforced on 8 GPUs, cooperative on 6 GPUs, placement only on 3 GPUs",
    );
    expect(partHint([model(0)])).toBeNull();
  });
});
