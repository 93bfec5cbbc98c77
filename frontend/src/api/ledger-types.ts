/** What the routes about the ledger and fairness say; docs/ledger.md and docs/fairness.md have the words. */

import type { components } from "@/api/schema";

type Schemas = components["schemas"];

/** Something that was bid, won, paid, traded or lent. */
export type LedgerLine = Schemas["Line"];
/** What came of deciding a line's round again. */
export type Replay = Schemas["Replay"];

/** How a virtual cluster is divided now; whose gain is below 1 has less of it than of its own part alone. */
export type Fairness = Schemas["Fairness"];
export type TenantFairness = Schemas["TenantFairness"];
/** The same of one tenant, in few figures, at one moment. */
export type FairnessSample = Schemas["FairnessMinute"];
/** A time in which a tenant would have been better off alone. */
export type Violation = Schemas["Violation"];
