import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Plus } from "lucide-react";
import { useState } from "react";

import { ApiError } from "@/api/client";
import { createToken, rotateToken, tokensQuery, tokenTermsQuery } from "@/api/token-queries";
import type { NewToken, Scope, Token, TokenTerms } from "@/api/schema";
import { useSession } from "@/components/session";
import { ShownOnce } from "@/components/shown-once";
import { RevokeToken } from "@/components/tokens/revoke-token";
import { TokenTable } from "@/components/tokens/token-table";
import { Button } from "@/ui/button";
import { Dialog, DialogActions } from "@/ui/dialog";
import { EmptyState, ErrorNotice } from "@/ui/feedback";
import { Checkbox, Field, NumberInput, Select, TextInput } from "@/ui/field";
import { FieldGroup, Form } from "@/ui/form";
import { Panel } from "@/ui/layout";

const SCOPES: readonly { scope: Scope; label: string; forOperators?: true }[] = [
  { scope: "submit", label: "Submit: jobs, and sessions inside them" },
  { scope: "manage", label: "Manage: tenants that you administer, and your account" },
  { scope: "operate", label: "Operate: the platform, as an operator", forOperators: true },
];

const OVERLAPS = [
  { value: "0", label: "Not at all" },
  { value: "3600", label: "For an hour" },
  { value: "86400", label: "For a day" },
  { value: "604800", label: "For a week" },
];

/** One's own API tokens. */
export function TokensPanel() {
  const query = useQuery(tokensQuery);
  const terms = useQuery(tokenTermsQuery);
  const [creating, setCreating] = useState(false);
  const [revoking, setRevoking] = useState<Token | null>(null);
  const [rotating, setRotating] = useState<Token | null>(null);
  return (
    <Panel
      title="API tokens"
      flush
      actions={
        <Button icon={<Plus size={14} aria-hidden />} disabled={!terms.data} onClick={() => setCreating(true)}>
          New token
        </Button>
      }
    >
      <TokenTable
        tokens={query.data}
        query={query}
        empty={<EmptyState title="No tokens">A token lets the allot command and your scripts act as you.</EmptyState>}
        onRevoke={setRevoking}
        onRotate={setRotating}
      />
      {creating && terms.data && <CreateToken terms={terms.data} onClose={() => setCreating(false)} />}
      {rotating && <RotateToken token={rotating} onClose={() => setRotating(null)} />}
      {revoking && <RevokeToken token={revoking} onClose={() => setRevoking(null)} />}
    </Panel>
  );
}

function CreateToken({ terms, onClose }: { terms: TokenTerms; onClose: () => void }) {
  const me = useSession();
  const queries = useQueryClient();
  const [name, setName] = useState("");
  const [days, setDays] = useState<number | undefined>(terms.default_days);
  const [never, setNever] = useState(false);
  const [scopes, setScopes] = useState<ReadonlySet<Scope>>(new Set<Scope>(["submit"]));
  const create = useMutation({
    mutationFn: () =>
      createToken({ name, scopes: ["read", ...scopes], expires_in_days: never ? null : (days ?? terms.default_days) }),
    onSuccess: () => void queries.invalidateQueries({ queryKey: tokensQuery.queryKey }),
  });
  const refusal = create.error instanceof ApiError ? create.error : null;
  const toggle = (scope: Scope, on: boolean) => {
    const next = new Set(scopes);
    if (on) next.add(scope);
    else next.delete(scope);
    setScopes(next);
  };
  if (create.data?.token) return <Made token={create.data} onClose={onClose} />;
  return (
    <Dialog open onClose={onClose} title="New token">
      <Form onSubmit={() => create.mutate()}>
        {refusal?.fields.length === 0 && <ErrorNotice error={refusal} />}
        <Field label="Name" hint="What it is for" problem={refusal?.problem("name")}>
          {(attributes) => (
            <TextInput
              {...attributes}
              autoFocus
              required
              value={name}
              onChange={(event) => setName(event.target.value)}
            />
          )}
        </Field>
        <FieldGroup legend="What it may be used for" problem={refusal?.problem("scopes")}>
          <Checkbox label="Read: whatever you may see" checked disabled readOnly />
          {SCOPES.filter(({ forOperators }) => !forOperators || me.is_operator).map(({ scope, label }) => (
            <Checkbox
              key={scope}
              label={label}
              checked={scopes.has(scope)}
              onChange={(event) => toggle(scope, event.target.checked)}
            />
          ))}
        </FieldGroup>
        {!never && (
          <Field
            label="Expires in days"
            hint={`${terms.most_days} at most`}
            problem={refusal?.problem("expires_in_days")}
          >
            {(attributes) => (
              <NumberInput {...attributes} required min={1} max={terms.most_days} value={days} onChange={setDays} />
            )}
          </Field>
        )}
        {terms.may_never_expire && (
          <Checkbox label="Never expires" checked={never} onChange={(event) => setNever(event.target.checked)} />
        )}
        <DialogActions>
          <Button onClick={onClose}>Close</Button>
          <Button type="submit" look="primary" busy={create.isPending}>
            Create
          </Button>
        </DialogActions>
      </Form>
    </Dialog>
  );
}

function RotateToken({ token, onClose }: { token: Token; onClose: () => void }) {
  const queries = useQueryClient();
  const [overlap, setOverlap] = useState("86400");
  const rotate = useMutation({
    mutationFn: () => rotateToken(token.key, Number(overlap)),
    onSuccess: () => void queries.invalidateQueries({ queryKey: tokensQuery.queryKey }),
  });
  if (rotate.data?.token) return <Made token={rotate.data} onClose={onClose} />;
  return (
    <Dialog open onClose={onClose} title={`Rotate ${token.name}`}>
      <Form onSubmit={() => rotate.mutate()}>
        {rotate.isError && <ErrorNotice error={rotate.error} />}
        <p>You get a new token with the same name and scopes, for as long as this one was made for.</p>
        <Field label="The old one goes on working">
          {(attributes) => (
            <Select
              {...attributes}
              value={overlap}
              options={OVERLAPS}
              onChange={(event) => setOverlap(event.target.value)}
            />
          )}
        </Field>
        <DialogActions>
          <Button onClick={onClose}>Close</Button>
          <Button type="submit" look="primary" busy={rotate.isPending}>
            Rotate
          </Button>
        </DialogActions>
      </Form>
    </Dialog>
  );
}

function Made({ token, onClose }: { token: NewToken; onClose: () => void }) {
  return (
    <Dialog open onClose={onClose} title={`Token ${token.name}`}>
      <ShownOnce secret={token.token ?? ""} label="Whoever has it acts as you." />
      <DialogActions>
        <Button look="primary" onClick={onClose}>
          Done
        </Button>
      </DialogActions>
    </Dialog>
  );
}
