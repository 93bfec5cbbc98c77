/** The page of the documentation (`/docs/`) that explains each part of the dashboard, by the beginning of its address. */
const PAGES: readonly (readonly [string, string])[] = [
  ["/submit", "job-specification.html"],
  ["/jobs", "reasons.html"],
  ["/compare", "jobs.html"],
  ["/calendar", "maintenance.html"],
  ["/nodes", "operating.html"],
  ["/virtual-clusters", "policies.html"],
  ["/cells", "cells.html"],
  ["/sharing", "gpu-sharing.html"],
  ["/market", "market.html"],
  ["/ledger", "ledger.html"],
  ["/throughputs", "throughputs.html"],
  ["/failures", "failures.html"],
  ["/tenants", "administration.html"],
  ["/usage", "cli.html"],
  ["/users", "administration.html"],
  ["/rounds", "architecture.html"],
  ["/events", "architecture.html"],
  ["/audit", "audit.html"],
  ["/tokens", "api/index.html"],
  ["/account", "notifications.html"],
];

/** Return the address of the documentation of a page; its start where the page has none of its own. */
export function helpFor(path: string): string {
  const found = PAGES.find(([prefix]) => path === prefix || path.startsWith(`${prefix}/`));
  return `/docs/${found?.[1] ?? ""}`;
}
