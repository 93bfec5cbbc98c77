import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { Plus } from "lucide-react";
import { useState } from "react";

import { answerOf, api, once } from "@/api/client";
import { tenantsQuery } from "@/api/queries";
import type { Me, Tenant } from "@/api/schema";
import { words } from "@/components/format";
import { useSentForm } from "@/components/sent-form";
import { useSession } from "@/components/session";
import { WebhooksPanel } from "@/components/notices/webhooks-panel";
import { Button } from "@/ui/button";
import { DataTable } from "@/ui/data-table";
import { FormDialog } from "@/ui/dialog";
import { EmptyState } from "@/ui/feedback";
import { TextField } from "@/ui/field";
import { PageLayout, Panel } from "@/ui/layout";

export function TenantsPage() {
  const me = useSession();
  const query = useQuery(tenantsQuery);
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
          ]}
        />
      </Panel>
      {me.is_operator && <WebhooksPanel tenant={null} />}
      {adding && <AddTenant onClose={() => setAdding(false)} />}
    </PageLayout>
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
