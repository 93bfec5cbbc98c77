import { useQuery } from "@tanstack/react-query";

import { userBudgetQuery, userLimitsQuery, userQuotaQuery } from "@/api/limit-queries";
import type { LimitsOfUser } from "@/api/schema";
import { bytes, count } from "@/components/format";
import { amountText } from "@/components/notices/words";
import { useSession } from "@/components/session";
import { Facts, Panel } from "@/ui/layout";

/** What admins let the person hold and use up in a tenant, and what is held and used; nothing without limits. */
export function LimitsPanel({ tenant }: { tenant: string }) {
  const { username } = useSession().user;
  const limits = useQuery(userLimitsQuery(tenant)).data?.find((each) => each.username === username);
  return limits ? <Limits tenant={tenant} limits={limits} /> : null;
}

function Limits({ tenant, limits: { username, quota, budget } }: { tenant: string; limits: LimitsOfUser }) {
  const held = useQuery(userQuotaQuery(tenant, username)).data?.held;
  const state = useQuery({ ...userBudgetQuery(tenant, username), enabled: budget !== null }).data;
  const gpus = Object.values(held?.gpus ?? {}).reduce((sum, each) => sum + each, 0);
  const facts: [string, string][] = [];
  if (quota?.gpus != null) facts.push(["GPUs", `${count(gpus)} of ${count(quota.gpus)}`]);
  if (quota?.cpus != null) facts.push(["CPUs", `${count(held?.cpus ?? 0)} of ${count(quota.cpus)}`]);
  if (quota?.memory_bytes != null)
    facts.push(["Memory", `${bytes(held?.memory_bytes ?? 0)} of ${bytes(quota.memory_bytes)}`]);
  if (budget) {
    const used = state ? `${count(state.used)} of ` : "";
    facts.push([
      budget.period === "none" ? "Budget" : `This ${budget.period}`,
      used + amountText(budget.amount, budget.unit, state?.currency),
    ]);
    if (state?.is_holding) facts.push(["Now", "used up: no further job of yours starts"]);
  }
  return (
    <Panel title={`Your limits in ${tenant}`}>
      <Facts facts={facts} />
    </Panel>
  );
}
