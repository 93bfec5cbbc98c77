/** How far back charts reach. */

export const SPANS = [
  { value: "900", label: "15 min" },
  { value: "3600", label: "1 h" },
  { value: "21600", label: "6 h" },
  { value: "172800", label: "2 d" },
  { value: "2678400", label: "31 d" },
] as const;

export type Span = (typeof SPANS)[number]["value"];
