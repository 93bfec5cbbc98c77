/** Lines of the ledger as people say them. Pure; docs/ledger.md has every kind and what its figures mean. */

import type { Line as LedgerLine } from "@/api/schema";
import { creditsText, duration, inLocalTime, words } from "@/components/format";

const fine = new Intl.NumberFormat("en-US", { maximumFractionDigits: 2 });

/** Kinds in the order in which they are offered as a filter, with the name of each. */
export const KIND_TEXT: Readonly<Record<string, string>> = {
  auction: "Auction",
  bid: "Bid",
  win: "Win",
  leftover: "Left over",
  entitled: "Entitled",
  trade: "Trade",
  offer: "Offer",
  withdraw: "Withdrawal",
  expire: "Expiry",
  take: "Take",
  end: "End of a loan",
};

/** What is said of the GPUs of a line, by its kind. */
const GPUS_TEXT: Readonly<Record<string, string>> = {
  auction: "For sale",
  bid: "Best row",
  win: "Won",
  leftover: "Gets",
  entitled: "Entitled to",
  trade: "Gets",
};

export function kindText(kind: string): string {
  return KIND_TEXT[kind] ?? words(kind);
}

/** What happened, with whose line it is where the sentence itself does not name them. */
export function sentenceOf({ message: said, party, counterparty, view, at }: LedgerLine): string {
  if (!said) return partiesOf({ party, counterparty, view });
  const message = inLocalTime(said, at);
  return !party || message.includes(party) ? message : `${party}: ${message}`;
}

/** "vision, with speech". */
export function partiesOf({ party, counterparty, view }: Pick<LedgerLine, "party" | "counterparty" | "view">): string {
  if (!party) return `Everyone in ${view}`;
  return counterparty ? `${party}, with ${counterparty}` : party;
}

/** A figure to the hundredth. */
export function figure(value: number): string {
  return fine.format(value);
}

/** "1.25 V100, 0.5 K80". */
export function gpusText(gpus: Readonly<Record<string, number>>): string {
  return Object.entries(gpus)
    .filter(([, number]) => number !== 0)
    .map(([model, number]) => `${figure(number)} ${model}`)
    .join(", ");
}

/** The figures of a line, each with what it is. */
export function figuresOf(line: LedgerLine): (readonly [string, string])[] {
  const { kind, gpus, given, price, seconds } = line;
  const figures: (readonly [string, string])[] = [
    [GPUS_TEXT[kind] ?? "GPUs", gpusText(gpus)],
    ["Gives", gpusText(given)],
    ...(price === null ? [] : [priceText(line, price)]),
    ["For", seconds ? duration(seconds) : ""],
    [kind === "auction" ? "Worst rho" : "Rho", rhoText(line)],
  ];
  return figures.filter(([, text]) => text !== "");
}

/** What a price is depends on the kind: a part withheld, slow GPUs for a fast one, credits. */
function priceText({ kind, view }: LedgerLine, price: number): readonly [string, string] {
  if (view === "market") return ["Price", `${creditsText(price)} a GPU-hour`];
  if (kind === "trade") return ["Price", `${figure(price)} slow for a fast one`];
  return ["Withheld", `${figure(price * 100)} %`];
}

function rhoText({ rho_before: before, rho_after: after }: LedgerLine): string {
  const parts = [before, after].filter((rho) => rho !== null).map(figure);
  return [...new Set(parts)].join(" → ");
}

/** The lines that were fetched and those that were heard since, the newest first, each once. */
export function newestFirst(
  fetched: readonly LedgerLine[],
  heard: readonly LedgerLine[],
  matches: (line: LedgerLine) => boolean,
): LedgerLine[] {
  const byId = new Map(fetched.map((line) => [line.id, line]));
  for (const line of heard) if (matches(line)) byId.set(line.id, line);
  return [...byId.values()].sort((a, b) => b.id - a.id);
}
