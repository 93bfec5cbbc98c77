import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { Plus } from "lucide-react";
import { useState } from "react";

import { answerOf, api, once } from "@/api/client";
import { budgetsQuery } from "@/api/notice-queries";
import { tenantsQuery } from "@/api/queries";
import type { BudgetOfTenant, Me, Tenant, UsageRow } from "@/api/schema";
import { usageReportQuery } from "@/api/usage-queries";
import { useCurrency } from "@/components/currency";
import { count, words } from "@/components/format";
import { amountText } from "@/components/notices/words";
import { useSentForm } from "@/components/sent-form";
import { useSession } from "@/components/session";
import { WebhooksPanel } from "@/components/notices/webhooks-panel";
import { Button } from "@/ui/button";
import { DataTable } from "@/ui/data-table";
import { FormDialog } from "@/ui/dialog";
import { EmptyState } from "@/ui/feedback";
import { TextField } from "@/ui/field";
import { muted, PageLayout, Panel } from "@/ui/layout";

export function TenantsPage() {
  const me = useSession();
  const query = useQuery(tenantsQuery);
  const usage = useQuery(usageReportQuery());
  const used = new Map(usage.data?.rows.map((row) => [row.tenant, row]));
  const budgets = new Map(useQuery(budgetsQuery).data?.map((budget) => [budget.tenant, budget]));
  const [adding, setAdding] = useState(false);
  return (
    <PageLayout
      title="Tenants"
      lead="Groups of users with their own jobs, quotas and budgets."
      actions={
        me.is_operator && (
          <Button look="primary" icon={<Plus size={15} aria-hidden />} onClick={() => setAdding(true)}>
            New tenant
          </Button>
        )
      }
    >
      <Panel flush>
        <DataTable
          label="Tenants"
          rows={query.data}
          rowKey={({ name }) => name}
          query={query}
          empty={
            <EmptyState title="No tenants">
              You are not a member of any tenant. Ask an operator or a tenant&apos;s admin.
            </EmptyState>
          }
          columns={[
            {
              header: "Tenant",
              isRowHeader: true,
              sortBy: ({ name }) => name,
              cell: ({ name }) => (
                <Link to="/tenants/$name" params={{ name }}>
                  {name}
                </Link>
              ),
            },
            { header: "Title", sortBy: ({ title }) => title || null, cell: ({ title }) => title },
            { header: "Your role", sortBy: roleFor(me), cell: roleFor(me) },
            { header: "Members", isNumeric: true, sortBy: ({ members }) => members, cell: ({ members }) => members },
            {
              header: "GPU-hours this month",
              isNumeric: true,
              sortBy: ({ name }) => used.get(name)?.gpu_hours ?? 0,
              cell: ({ name }) => (usage.data ? count(used.get(name)?.gpu_hours ?? 0) : "–"),
            },
            {
              header: "Budget",
              cell: ({ name }) => (
                <BudgetCell budget={budgets.get(name)} used={used.get(name)} since={usage.data?.since} />
              ),
            },
          ]}
        />
      </Panel>
      {me.is_operator && <WebhooksPanel tenant={null} />}
      {adding && <AddTenant onClose={() => setAdding(false)} />}
    </PageLayout>
  );
}

const PERIOD_WORDS = { month: " a month", week: " a week", none: "" };

interface BudgetCellProps {
  budget: BudgetOfTenant | undefined;
  /** What the tenant used since the month began, at `since`; without it that is not known yet. */
  used: UsageRow | undefined;
  since: string | undefined;
}

/** The terms of a budget, and what is used of one that counts this whole month. */
function BudgetCell({ budget, used, since }: BudgetCellProps) {
  const currency = useCurrency();
  if (!budget) return <span className={muted}>none</span>;
  const { amount, unit, period, is_spent: isSpent, starts_at: startsAt } = budget;
  const spent = (unit === "cost" ? used?.cost : used?.gpu_hours) ?? 0;
  const countsTheMonth = since !== undefined && period === "month" && Date.parse(startsAt) <= Date.parse(since);
  return (
    <>
      {amountText(amount, unit, currency)}
      {PERIOD_WORDS[period]}
      {isSpent ? (
        <span className={muted}>, used up</span>
      ) : (
        countsTheMonth && <span className={muted}>, {Math.round((100 * spent) / amount)} % used</span>
      )}
    </>
  );
}

/** An operator may do all in each tenant, as the platform's operator and not as one of its admins. */
function roleFor(me: Me): (tenant: Tenant) => string {
  return ({ role }) => (me.is_operator ? "Operator" : words(role));
}

function AddTenant({ onClose }: { onClose: () => void }) {
  const queries = useQueryClient();
  const add = useMutation({
    mutationFn: (body: { name: string; title: string }) =>
      answerOf(api.POST("/tenants", { params: { header: once() }, body })),
    onSuccess: async () => {
      await queries.invalidateQueries({ queryKey: ["tenants"] });
      onClose();
    },
  });
  const { sending, field } = useSentForm({ name: "", title: "" }, add);
  return (
    <FormDialog title="New tenant" sending={sending} action="Create" onClose={onClose}>
      <TextField
        {...field("name")}
        label="Name"
        hint="Lower-case letters, digits and '-'; it is part of addresses"
        autoFocus
        required
      />
      <TextField {...field("title")} label="Title" />
    </FormDialog>
  );
}
