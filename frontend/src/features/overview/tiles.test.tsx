import { screen, within } from "@testing-library/react";
import { expect, it } from "vitest";

import { plantGarden, tallyOf } from "@/components/gpu-map/garden";
import { Tiles } from "@/features/overview/tiles";
import { renderPage } from "@/testing/render";
import { aGpu, aJob, anAttempt, aNode } from "@/testing/samples";

const HELD = { state: "held" as const };
const GPUS = [aGpu({ id: 1, index: 0, ...HELD }), aGpu({ id: 2, index: 1, ...HELD }), aGpu({ id: 3, index: 2 })];
const PLACED = {
  node: "n1",
  node_id: 1,
  gpus: [{ id: 1, index: 0 }],
  ranks: [0],
  state: "running",
  enforcement: "" as const,
};

it("the viewer's jobs and the whole cluster are apart and say which they are", async () => {
  const mine = aJob({ state: "running", attempt: anAttempt({ placement: [PLACED] }) });
  const tally = tallyOf(plantGarden([aNode({ id: 1, name: "n1", gpus: GPUS })], [mine]));
  const jobs = { running: 1, queued: 4 };
  await renderPage(() => <Tiles tally={tally} jobs={jobs} oldestWait={null} seesAll={false} loading={false} />);
  const own = screen.getByRole("region", { name: "Your tenants" });
  const whole = screen.getByRole("region", { name: "Whole cluster" });
  expect(within(own).getByText("GPUs held by your jobs").nextSibling?.textContent).toBe("1");
  expect(within(own).getByText("Queued jobs").nextSibling?.textContent).toBe("4");
  expect(within(whole).getByText("GPUs in use").nextSibling?.textContent).toBe("2 of 3");
  expect(within(whole).queryByText(/jobs/)).toBeNull();
});

it("says how many of the ready nodes accept no jobs", async () => {
  const nodes = [aNode({ id: 1 }), aNode({ id: 2, cordoned: true })];
  const tally = tallyOf(plantGarden(nodes, []));
  await renderPage(() => <Tiles tally={tally} jobs={undefined} oldestWait={null} seesAll loading={false} />);
  expect(screen.getByRole("link", { name: /Nodes ready/ }).textContent).toBe("Nodes ready2 of 21 closed to jobs");
});
