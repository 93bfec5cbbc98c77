import { describe, expect, it } from "vitest";

import { KEY_GROUPS, KEYS, pressed, shownKeys } from "@/ui/keys";

const press = (key: string, held: Partial<Record<"ctrlKey" | "metaKey" | "shiftKey", boolean>> = {}) => ({
  key,
  ctrlKey: false,
  metaKey: false,
  shiftKey: false,
  ...held,
});

describe("the table of keys", () => {
  it("tells which key of a group was pressed", () => {
    expect(pressed("everywhere", press("k", { ctrlKey: true }))).toBe("goTo");
    expect(pressed("everywhere", press("K", { metaKey: true }))).toBe("goTo");
    expect(pressed("everywhere", press("k"))).toBeUndefined();
    expect(pressed("everywhere", press("?", { shiftKey: true }))).toBe("help");
    expect(pressed("everywhere", press("/", { ctrlKey: true }))).toBeUndefined();
    expect(pressed("log", press("Enter"))).toBe("next");
    expect(pressed("log", press("Enter", { shiftKey: true }))).toBe("previous");
    expect(pressed("tree", press(" "))).toBe("open");
  });

  it("shows keys as they stand on a keyboard", () => {
    expect(shownKeys(KEYS.everywhere.goTo)).toEqual(["Ctrl K"]);
    expect(shownKeys(KEYS.log.previous)).toEqual(["Shift Enter"]);
    expect(shownKeys(KEYS.tree.open)).toEqual(["Enter", "Space"]);
    expect(shownKeys(KEYS.list.previous)).toEqual(["\u2191"]);
  });

  it("has a heading for each group", () => {
    expect(Object.keys(KEYS)).toEqual(Object.keys(KEY_GROUPS));
  });

  it("is the only place that knows names of keys", () => {
    const sources = import.meta.glob<string>(["/src/**/*.{ts,tsx}", "!/src/**/*.test.*", "!/src/ui/keys.ts"], {
      query: "?raw",
      import: "default",
      eager: true,
    });
    expect(Object.keys(sources).length).toBeGreaterThan(100);
    const named = /["'](?:Arrow(?:Up|Down|Left|Right)|Enter|Escape)["']|\.key(?:\.toLowerCase\(\))? ===/;
    const others = Object.entries(sources).filter(([, text]) => named.test(text));
    // The map of GPUs names directions as the keys are called.
    expect(others.map(([path]) => path)).toEqual(["/src/components/gpu-map/layout.ts"]);
  });

  it("is asked for every group by a handler", () => {
    const sources = Object.values(
      import.meta.glob<string>(["/src/**/*.{ts,tsx}", "!/src/**/*.test.*"], {
        query: "?raw",
        import: "default",
        eager: true,
      }),
    ).join("\n");
    for (const group of Object.keys(KEYS))
      expect(sources).toMatch(new RegExp(`pressed\\("${group}"|KEYS\\.${group}\\.`));
  });
});
