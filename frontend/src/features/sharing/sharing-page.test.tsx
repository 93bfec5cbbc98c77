import { screen } from "@testing-library/react";
import { expect, it } from "vitest";

import type { GpuSharer, SharedGpu } from "@/api/schema";
import { SharingPage } from "@/features/sharing/sharing-page";
import { renderPage, rowsOf } from "@/testing/render";
import { page, server } from "@/testing/server";

const GIB = 2 ** 30;

function aSharer(given: Partial<GpuSharer>): GpuSharer {
  return {
    id: 7,
    name: "digits",
    tenant: "vision",
    virtual_cluster: "research",
    request: 0.3,
    limit: 0.6,
    memory_bytes: 4 * GIB,
    memory_used_bytes: 3 * GIB,
    way: "part",
    enforcement: "enforced",
    slowdown: 2.5,
    ...given,
  };
}

function aSharedGpu(given: Partial<SharedGpu>): SharedGpu {
  return { id: 1, node: "bed-1", index: 3, gpu_model: "V100", memory_bytes: 16 * GIB, in_use: 0.8, jobs: [], ...given };
}

it("says who has which part, how it is held and what it costs, and of others' jobs only what they have", async () => {
  const stranger = {
    id: null,
    name: null,
    tenant: null,
    virtual_cluster: null,
    memory_used_bytes: null,
    slowdown: null,
  };
  server.on(
    "GET /shared-gpus",
    page([
      aSharedGpu({
        jobs: [aSharer({}), aSharer({ ...stranger, request: 0.5, limit: 0.5, enforcement: "placement_only" })],
      }),
      aSharedGpu({
        id: 2,
        index: 4,
        in_use: 1,
        jobs: [
          aSharer({
            id: 8,
            name: "bert",
            request: 1,
            limit: 1,
            way: "together",
            enforcement: "",
            memory_used_bytes: null,
            slowdown: null,
          }),
          aSharer({ id: 9, name: "dlrm", request: 1, limit: 1, way: "turns", enforcement: "", slowdown: 1.25 }),
        ],
      }),
    ]),
  );
  await renderPage(SharingPage);
  const rows = rowsOf(await screen.findByRole("table", { name: "Shared GPUs" }));
  expect(rows.map((row) => row.slice(1))).toEqual([
    ["80 %", "digits #7vision in research", "0.3up to 0.6", "4 GiB", "3 GiB", "enforced", "2.50×"],
    ["", "of another tenant", "0.5", "4 GiB", "–", "placement only", "–"],
    ["100 %", "bert #8vision in research", "1", "4 GiB", "not measured", "together", "not measured"],
    ["", "dlrm #9vision in research", "1", "4 GiB", "3 GiB", "in turns", "1.25×"],
  ]);
  // Each row names its GPU for those who hear it.
  expect(rows.map(([gpu]) => gpu)).toEqual([
    "bed-1 GPU 3V100",
    "bed-1 GPU 3V100",
    "bed-1 GPU 4V100",
    "bed-1 GPU 4V100",
  ]);
});

it("says how to ask for a part where nobody shares", async () => {
  server.on("GET /shared-gpus", page([]));
  await renderPage(SharingPage);
  await screen.findByText("No GPU is shared now");
});
