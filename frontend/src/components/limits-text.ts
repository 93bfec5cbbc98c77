import type { LimitsOfUser } from "@/api/schema";
import { bytes, counted } from "@/components/format";
import { amountText } from "@/components/notices/words";

/** "4 GPUs, 16 CPUs; 100 GPU-hours a month"; empty without limits. `currency` is the site's. */
export function limitsText({ quota, budget }: Pick<LimitsOfUser, "quota" | "budget">, currency: string | null): string {
  const atOnce = [
    quota?.gpus == null ? "" : counted(quota.gpus, "GPU"),
    quota?.cpus == null ? "" : counted(quota.cpus, "CPU"),
    quota?.memory_bytes == null ? "" : bytes(quota.memory_bytes),
  ].filter(Boolean);
  const period = budget?.period === "none" ? "once" : `a ${budget?.period ?? ""}`;
  const spent = budget?.is_spent ? ", used up" : "";
  return [atOnce.join(", "), budget ? `${amountText(budget.amount, budget.unit, currency)} ${period}${spent}` : ""]
    .filter(Boolean)
    .join("; ");
}
