import { describe, expect, it } from "vitest";

import { commandText, environmentText, readEnvironment } from "@/features/submit/task-card";

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
