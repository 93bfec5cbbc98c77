import { describe, expect, it } from "vitest";

import { plantGarden } from "@/components/gpu-map/garden";
import { hitTest, layoutGarden, neighbour, type Box, type GardenLayout } from "@/components/gpu-map/layout";
import { aNode } from "@/testing/samples";

function garden(nodes: number, gpusEach: number, racks: number) {
  return plantGarden(
    Array.from({ length: nodes }, (_, id) => aNode({ id, rack: `rack-${id % racks}`, gpu_count: gpusEach })),
    [],
  );
}

function plots(layout: GardenLayout): Box[] {
  return layout.racks.flatMap((rack) => rack.beds.flatMap((bed) => bed.plots));
}

describe("the map's layout", () => {
  it.each([
    [7, 4, 3],
    [1, 16, 1],
    [40, 8, 5],
    [1250, 8, 40],
  ])("draws %d nodes of %d GPUs in %d racks inside the width without overlap", (nodes, gpusEach, racks) => {
    for (const width of [340, 900, 1400]) {
      const layout = layoutGarden(garden(nodes, gpusEach, racks), width, 440);
      const boxes = plots(layout);
      expect(boxes).toHaveLength(nodes * gpusEach);
      const corners = new Set(boxes.map((box) => `${box.x},${box.y}`));
      expect(corners.size).toBe(boxes.length);
      expect(boxes.filter((box) => box.x + box.width > width)).toEqual([]);
    }
  });

  it("makes plots as large as the height allows", () => {
    expect(layoutGarden(garden(7, 4, 3), 1200, 440).cell).toBeGreaterThan(
      layoutGarden(garden(200, 8, 8), 1200, 440).cell,
    );
  });

  it("finds the plot under the pointer, and none in the gaps", () => {
    const layout = layoutGarden(garden(4, 4, 2), 800, 440);
    for (const rack of layout.racks) {
      for (const bed of rack.beds) {
        for (const plot of bed.plots) expect(hitTest(layout, plot.x + 1, plot.y + 1)?.plot).toBe(plot);
      }
    }
    expect(hitTest(layout, -5, -5)).toBeNull();
  });

  it("reaches every plot by arrow keys", () => {
    const layout = layoutGarden(garden(5, 4, 2), 800, 440);
    const all = plots(layout).length;
    const first = neighbour(layout, null, "ArrowRight");
    const reached = new Set([first?.plot]);
    const open = [first];
    while (open.length > 0) {
      const from = open.pop() ?? null;
      for (const direction of ["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown"] as const) {
        const to = neighbour(layout, from, direction);
        if (to && !reached.has(to.plot)) {
          reached.add(to.plot);
          open.push(to);
        }
      }
    }
    expect(reached.size).toBe(all);
  });
});
