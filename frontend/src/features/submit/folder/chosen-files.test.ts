import { describe, expect, it } from "vitest";

import { chosenFiles, MOST_BYTES } from "@/features/submit/folder/chosen-files";

/** Files as a browser gives those of a folder named project. */
function inFolder(texts: Record<string, string>): File[] {
  return Object.entries(texts).map(([name, text]) => aFile(name, [text]));
}

function aFile(name: string, parts: BlobPart[], size?: number): File {
  const file = new File(parts, name.slice(name.lastIndexOf("/") + 1));
  Object.defineProperty(file, "webkitRelativePath", { value: `project/${name}` });
  if (size !== undefined) Object.defineProperty(file, "size", { value: size });
  return file;
}

async function names(texts: Record<string, string>): Promise<string[]> {
  return (await chosenFiles(inFolder(texts))).files.map(({ name }) => name);
}

describe("what of a chosen folder travels", () => {
  it("is what `allot submit --upload` takes of the same files", async () => {
    const texts = {
      ".gitignore": "*.pt\n/data/\n!keep.pt\n",
      "a.pt": "",
      "keep.pt": "",
      "data/x": "",
      "lib/data/x": "",
      "lib/.gitignore": "x\n!b.pt\n",
      "lib/b.pt": "",
      "lib/c.py": "",
      ".git/config": "",
      ".venv/bin/python": "",
    };
    const kept = [".gitignore", ".venv/bin/python", "keep.pt", "lib/.gitignore", "lib/b.pt", "lib/c.py"];
    expect(await names(texts)).toEqual(kept);
    expect(await names({ ...texts, ".allotignore": ".venv\n!a.pt\nlib/c.py\n" })).toEqual([
      ".allotignore",
      ".gitignore",
      "a.pt",
      "keep.pt",
      "lib/.gitignore",
      "lib/b.pt",
    ]);
    expect((await chosenFiles(inFolder(texts))).folder).toBe("project");
  });

  it("is refused where it is nothing, or too much, with the largest files", async () => {
    await expect(names({ ".gitignore": "*\n", "a.py": "" })).rejects.toThrow("There is nothing to upload");
    const large = [aFile("small.bin", ["x"]), aFile("data/large.bin", [], MOST_BYTES)];
    await expect(chosenFiles(large)).rejects.toThrow(
      /^The files have 256 MiB, more than 256 MiB\. List in \.allotignore .* data\/large\.bin \(256 MiB\), small\.bin/,
    );
  });
});
