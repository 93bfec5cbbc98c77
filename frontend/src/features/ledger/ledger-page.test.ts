import { expect, it } from "vitest";

import { matches, wholeOf } from "@/features/ledger/ledger-page";
import { aLedgerLine } from "@/testing/samples";

const line = aLedgerLine({ kind: "trade", party: "vision", counterparty: "speech", jobs: [4, 5], round_number: 9 });

it("lets a line through that every filter lets through", () => {
  const wanted = [{}, { kind: "trade", job: 5 }, { party: "speech", view: "research", round: 9 }];
  expect(wanted.every((filters) => matches(filters, line))).toBe(true);
  const unwanted = [
    { kind: "win" },
    { view: "market" },
    { party: "robotics" },
    { job: 6 },
    { kind: "trade", round: 8 },
  ];
  expect(unwanted.some((filters) => matches(filters, line))).toBe(false);
});

it("takes only whole numbers for numbers", () => {
  expect([" 12", "12"].map(wholeOf)).toEqual([12, 12]);
  expect(["", "1.5", "-1", "x", "1e3"].map(wholeOf)).toEqual([undefined, undefined, undefined, undefined, undefined]);
});
