import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useWatch } from "react-hook-form";

import type { NewToken, Scope, Token, TokenTerms } from "@/api/schema";
import { createToken, rotateToken, tokensQuery } from "@/api/access-queries";
import { useSentForm } from "@/components/sent-form";
import { useSession } from "@/components/session";
import { ShownOnceDialog } from "@/components/shown-once";
import { FormDialog } from "@/ui/dialog";
import { Checkbox, SelectField, TextField } from "@/ui/field";
import { FieldGroup } from "@/ui/form";

const SCOPES: readonly { scope: Scope; label: string; forOperators?: true }[] = [
  { scope: "submit", label: "Submit: jobs, and sessions inside them" },
  { scope: "manage", label: "Manage: your account, and the tenants that you administer" },
  { scope: "operate", label: "Operate: everything that an operator may do", forOperators: true },
];

const OVERLAPS = [
  { value: "0", label: "Never" },
  { value: "3600", label: "For an hour" },
  { value: "86400", label: "For a day" },
  { value: "604800", label: "For a week" },
];

interface TokenDraft {
  name: string;
  scopes: Scope[];
  expires_in_days: number | undefined;
  never: boolean;
}

/** Names a new token, its scopes and its end; shows it once it is made. */
export function CreateToken({ terms, onClose }: { terms: TokenTerms; onClose: () => void }) {
  const me = useSession();
  const queries = useQueryClient();
  const create = useMutation({
    mutationFn: ({ name, scopes, expires_in_days: days, never }: TokenDraft) =>
      createToken({ name, scopes: ["read", ...scopes], expires_in_days: never ? null : (days ?? terms.default_days) }),
    onSuccess: () => void queries.invalidateQueries({ queryKey: tokensQuery.queryKey }),
  });
  const { sending, field, number, register, problem, control } = useSentForm<TokenDraft>(
    { name: "", scopes: ["submit"], expires_in_days: terms.default_days, never: false },
    create,
  );
  const never = useWatch({ control, name: "never" });
  if (create.data?.token) return <Made token={create.data} onClose={onClose} />;
  return (
    <FormDialog title="New token" sending={sending} action="Create" onClose={onClose}>
      <TextField {...field("name")} label="Name" hint="Purpose of the token" autoFocus required />
      <FieldGroup legend="Scopes" problem={problem("scopes")}>
        <Checkbox label="Read: everything that you can see" checked disabled readOnly />
        {SCOPES.filter(({ forOperators }) => !forOperators || me.is_operator).map(({ scope, label }) => (
          <Checkbox key={scope} {...register("scopes")} value={scope} label={label} />
        ))}
      </FieldGroup>
      {!never && (
        <TextField
          {...number("expires_in_days")}
          label="Expires in days"
          hint={`${terms.most_days} at most`}
          required
          min={1}
          max={terms.most_days}
        />
      )}
      {terms.may_never_expire && <Checkbox {...register("never")} label="Never expires" />}
    </FormDialog>
  );
}

/** Replaces a token by a new one. */
export function RotateToken({ token, onClose }: { token: Token; onClose: () => void }) {
  const queries = useQueryClient();
  const rotate = useMutation({
    mutationFn: ({ overlap_seconds: overlap }: { overlap_seconds: string }) => rotateToken(token.key, Number(overlap)),
    onSuccess: () => void queries.invalidateQueries({ queryKey: tokensQuery.queryKey }),
  });
  const { sending, field } = useSentForm({ overlap_seconds: "86400" }, rotate);
  if (rotate.data?.token) return <Made token={rotate.data} onClose={onClose} />;
  return (
    <FormDialog title={`Rotate ${token.name}`} sending={sending} action="Rotate" onClose={onClose}>
      <p>You get a new token with the same name, scopes and lifetime.</p>
      <SelectField {...field("overlap_seconds")} label="The old token keeps working" options={OVERLAPS} />
    </FormDialog>
  );
}

function Made({ token, onClose }: { token: NewToken; onClose: () => void }) {
  return (
    <ShownOnceDialog
      title={`Token ${token.name}`}
      secret={token.token ?? ""}
      label="Anyone who has it can act as you."
      onClose={onClose}
    />
  );
}
