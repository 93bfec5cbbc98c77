/** Lots and credits in words. Pure. */

import type { LotInputRequest } from "@/api/schema";

const credit = new Intl.NumberFormat("en-US", { maximumFractionDigits: 3 });

/** "2 P100, 1 V100-SWITCH". */
export function lotText({ gpus = {}, cells = {} }: LotInputRequest): string {
  const parts = [...Object.entries(gpus), ...Object.entries(cells)].filter(([, number]) => number > 0);
  return parts.map(([name, number]) => `${number} ${name}`).join(", ") || "nothing";
}

/** "1.5 credits", "1 credit". */
export function creditsText(credits: number): string {
  return `${amount(credits)} credit${credits === 1 ? "" : "s"}`;
}

/** A sum of credits as a bare figure, to the thousandth. */
export function amount(credits: number): string {
  return credit.format(credits);
}
