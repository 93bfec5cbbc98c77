/** What a budget may count, for how long, and what it does. */

export const UNITS = [
  { value: "gpu_hours", label: "GPU-hours, all models alike" },
  { value: "cost", label: "Cost units, by each model's price" },
];
export const PERIODS = [
  { value: "month", label: "Each month" },
  { value: "week", label: "Each week" },
  { value: "none", label: "Once" },
];
export const ACTIONS = [
  { value: "warn", label: "Notify the admins only" },
  { value: "hold", label: "Start no further jobs" },
];
