import { createHash } from "node:crypto";
import { gunzipSync } from "node:zlib";

import { unpackTar } from "modern-tar";
import { describe, expect, it } from "vitest";

import { packFolder } from "@/features/submit/folder/pack-folder";

const long = `${"deep/".repeat(60)}é.py`;
const files = [
  { name: "a.py", file: new File(["print(1)"], "a.py", { lastModified: 1 }) },
  { name: long, file: new File(["x".repeat(100_000)], "é.py") },
];

describe("packFolder", () => {
  it("makes an archive of the files, and the same one of the same files", async () => {
    const heard: number[] = [];
    const packed = await packFolder(files, (done) => heard.push(done), new AbortController().signal);
    const content = Buffer.from(await packed.archive.arrayBuffer());
    expect(packed.digest).toBe(`sha256:${createHash("sha256").update(content).digest("hex")}`);
    const entries = await unpackTar(gunzipSync(content));
    expect(entries.map(({ header }) => [header.name, header.size, header.mode])).toEqual([
      ["a.py", 8, 0o644],
      [long, 100_000, 0o644],
    ]);
    expect(heard.at(-1)).toBe(100_008);
    const later = files.map(({ name, file }) => ({ name, file: new File([file], file.name, { lastModified: 2 }) }));
    expect((await packFolder(later, () => undefined, new AbortController().signal)).digest).toBe(packed.digest);
  });

  it("ends when it is cancelled, and when a file cannot be read", async () => {
    const aborting = new AbortController();
    const cancelled = packFolder(files, () => aborting.abort(), aborting.signal);
    await expect(cancelled).rejects.toMatchObject({ name: "AbortError" });
    const gone = new File(["x"], "gone.py");
    gone.stream = () => new ReadableStream({ pull: (controller) => controller.error(new Error("gone.py is gone")) });
    const reading = packFolder([{ name: "gone.py", file: gone }], () => undefined, new AbortController().signal);
    await expect(reading).rejects.toThrow("gone.py is gone");
  });
});
