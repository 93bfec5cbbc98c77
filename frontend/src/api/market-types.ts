/** What the routes about the market say; docs/market.md has the words. Credits have up to three decimals. */

import type { components } from "@/api/schema";

type Schemas = components["schemas"];

/** Guarantees that change hands together: GPUs by model, cells by type. One of the two is often left out. */
export type Lot = Partial<Schemas["Lot"]>;

export type Offer = Schemas["Offer"];
export type Loan = Schemas["Loan"];
/** By which rounds lend or borrow for a virtual cluster. */
export type Rule = Schemas["MarketRule"];
export type Account = Schemas["CreditAccount"];
export type Allowance = Schemas["CreditAllowance"];
export type Transfer = Schemas["CreditTransfer"];
