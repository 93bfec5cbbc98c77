import { describe, expect, it } from "vitest";

import type { Line as LedgerLine } from "@/api/schema";
import { moment } from "@/components/format";
import { figuresOf, newestFirst, sentenceOf } from "@/components/ledger/words";
import { aLedgerLine } from "@/testing/samples";

describe("lines of the ledger", () => {
  it("tell what was won, at which price and what it changes", () => {
    const line = aLedgerLine({ gpus: { V100: 2 }, price: 0.125, seconds: 1050, rho_before: 1.834, rho_after: 1.2 });
    expect(figuresOf(line)).toEqual([
      ["Won", "2 V100"],
      ["Withheld", "12.5 %"],
      ["For", "17 min 30 s"],
      ["Rho", "1.83 → 1.2"],
    ]);
  });

  it("name whose they are, once", () => {
    const said = (party: string, message: string) =>
      sentenceOf(aLedgerLine({ party, message, counterparty: "speech" }));
    expect(said("vision", "Won 2 V100.")).toBe("vision: Won 2 V100.");
    expect(said("vision", "vision has 1 V100 of speech.")).toBe("vision has 1 V100 of speech.");
    expect([said("vision", ""), said("", "")]).toEqual(["vision, with speech", "Everyone in research"]);
  });

  it("name times as the row that they are in does", () => {
    const said = "Lent until 23:10:03 UTC on 25 November.";
    const line = aLedgerLine({ message: said, party: "", at: "2026-11-25T22:00:00Z" });
    expect(sentenceOf(line)).toBe(`Lent until ${moment("2026-11-25T23:10:03Z")}.`);
  });

  it("tell prices in what they are paid in", () => {
    expect(figuresOf(aLedgerLine({ kind: "trade", gpus: { V100: 1 }, given: { K80: 4 }, price: 4 }))).toEqual([
      ["Gets", "1 V100"],
      ["Gives", "4 K80"],
      ["Price", "4 slow for a fast one"],
    ]);
    expect(figuresOf(aLedgerLine({ kind: "take", view: "market", price: 1.5 }))).toEqual([
      ["Price", "1.5 credits a GPU-hour"],
    ]);
    expect(figuresOf(aLedgerLine({}))).toEqual([]);
  });

  it("are shown once, the newest first, when they match", () => {
    const fetched = [aLedgerLine({ id: 3 }), aLedgerLine({ id: 2 })];
    const heard = [aLedgerLine({ id: 3 }), aLedgerLine({ id: 5, kind: "bid" }), aLedgerLine({ id: 4 })];
    const isWin = ({ kind }: LedgerLine) => kind === "win";
    expect(newestFirst(fetched, heard, isWin).map(({ id }) => id)).toEqual([4, 3, 2]);
  });
});
