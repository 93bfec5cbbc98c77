import type { ComponentProps } from "react";

import { useCurrency } from "@/components/currency";
import { SelectField } from "@/ui/field";

const PERIODS = [
  { value: "month", label: "Each month" },
  { value: "week", label: "Each week" },
  { value: "none", label: "Once" },
];
const ACTIONS = [
  { value: "warn", label: "Notify the admins only" },
  { value: "hold", label: "Start no further jobs" },
];

interface Props {
  field: (name: "unit" | "period" | "action") => Omit<ComponentProps<typeof SelectField>, "label" | "options">;
}

/** What a budget counts, for how long, and what it does: that of a tenant, or of a member. */
export function BudgetFields({ field }: Props) {
  const units = [
    { value: "gpu_hours", label: "GPU-hours, all models alike" },
    { value: "cost", label: `${useCurrency() ?? "Cost units"}, by each model's price` },
  ];
  return (
    <>
      <SelectField {...field("unit")} label="Unit" options={units} />
      <SelectField {...field("period")} label="Period" hint="In UTC; weeks begin on Monday" options={PERIODS} />
      <SelectField
        {...field("action")}
        label="When it is used up"
        hint="Running jobs continue in any case"
        options={ACTIONS}
      />
    </>
  );
}
