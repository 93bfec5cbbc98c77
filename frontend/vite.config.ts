import { fileURLToPath } from "node:url";

import react from "@vitejs/plugin-react";
import { defineConfig } from "vitest/config";

// The address of a running platform, for `npm run dev` only.
const platform = process.env.ALLOT_URL ?? "http://127.0.0.1:8000";

export default defineConfig(({ command }) => ({
  // Django serves index.html on every page and the built files under STATIC_URL.
  base: command === "build" ? "/static/" : "/",
  plugins: [react()],
  resolve: { alias: { "@": fileURLToPath(new URL("./src", import.meta.url)) } },
  server: {
    proxy: {
      "/api": { target: platform },
      "/ws": { target: platform, ws: true },
    },
  },
  // The manifest tells which files a page loads; a test holds them to their budget.
  build: { target: "es2022", sourcemap: false, manifest: "chunks.json" },
  test: { include: ["src/**/*.test.ts", "src/**/*.test.tsx"], environment: "node" },
}));
