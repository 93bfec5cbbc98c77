import { readdirSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

import react from "@vitejs/plugin-react";
import { type Plugin } from "vite";
import { defineConfig } from "vitest/config";

// The address of a running platform, for `npm run dev` only.
const platform = process.env.ALLOT_URL ?? "http://127.0.0.1:8000";

const at = (path: string) => fileURLToPath(new URL(path, import.meta.url));

// The licences of what is shipped, served at /static/: Vite writes those of the libraries, but of no fonts.
const fontLicence: Plugin = {
  name: "font-licence",
  generateBundle() {
    const source = readFileSync(at("./node_modules/@fontsource-variable/ibm-plex-sans/LICENSE"));
    this.emitFile({ type: "asset", fileName: "ibm-plex-sans-license.txt", source });
  },
};

// The form shows what is said of fields that have a label. What is said of the others is half of the schema's bytes.
const unshownDescriptions: Plugin = {
  name: "unshown-descriptions",
  enforce: "pre",
  transform(code, id) {
    if (!id.endsWith("/job-spec.schema.json")) return;
    return JSON.stringify(JSON.parse(code), (_, value: unknown) => {
      const isUnshown = typeof value === "object" && value !== null && "description" in value && !("title" in value);
      return isUnshown ? { ...value, description: undefined } : value;
    });
  },
};

// Files of tests share modules, which are loaded once; but not those that put others in a module's place.
const replacesModules = readdirSync(at("./src"), { recursive: true, encoding: "utf-8" })
  .filter((path) => /\.test\.tsx?$/.test(path) && readFileSync(at(`./src/${path}`), "utf-8").includes("vi.mock("))
  .map((path) => `src/${path}`);

const components = {
  environment: "happy-dom",
  environmentOptions: { happyDOM: { url: "http://allotment.test/" } },
  setupFiles: ["src/testing/setup.ts"],
};

export default defineConfig(({ command }) => ({
  // Django serves index.html on every page and the built files under STATIC_URL.
  base: command === "build" ? "/static/" : "/",
  plugins: [react(), fontLicence, unshownDescriptions],
  resolve: { alias: { "@": at("./src") } },
  server: {
    proxy: {
      "/api": { target: platform },
      "/ws": { target: platform, ws: true },
    },
  },
  build: {
    target: "es2022",
    sourcemap: false,
    // Tells which files a page loads; a test holds them to their budget.
    manifest: "chunks.json",
    license: { fileName: "licenses.md" },
    rolldownOptions: {
      output: {
        // What most pages share is one file, not dozens of a few hundred bytes each.
        codeSplitting: { groups: [{ name: "shared", minShareCount: 32 }] },
      },
    },
  },
  test: {
    // Tests run beside whole platforms on two slow processors: what hangs fails later, what is slow does not.
    testTimeout: 60_000,
    hookTimeout: 60_000,
    // What several workers gain on two processors, they lose again to what runs beside them.
    maxWorkers: 1,
    projects: [
      {
        extends: true,
        test: { name: "functions", include: ["src/**/*.test.ts"], exclude: replacesModules, isolate: false },
      },
      {
        extends: true,
        test: {
          name: "components",
          ...components,
          include: ["src/**/*.test.tsx"],
          exclude: replacesModules,
          isolate: false,
        },
      },
      { extends: true, test: { name: "with modules replaced", ...components, include: replacesModules } },
    ],
  },
}));
