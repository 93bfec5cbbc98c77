import { useMutation, useQueryClient } from "@tanstack/react-query";
import { RotateCw, Trash2 } from "lucide-react";

import type { Token } from "@/api/schema";
import { revokeToken, tokensQuery } from "@/api/access-queries";
import { ago, duration, moment, words } from "@/components/format";
import { useNow } from "@/components/now";
import { Tag } from "@/components/state-badge";
import styles from "@/components/tokens/tokens.module.css";
import { IconButton } from "@/ui/button";
import { DataTable, type DataTableProps } from "@/ui/data-table";
import { Confirm } from "@/ui/confirm";
import { muted, oneLine } from "@/ui/layout";
import { useSay } from "@/ui/toasts";

interface TokenTableProps extends Pick<DataTableProps<Token>, "query" | "empty"> {
  tokens: readonly Token[] | undefined;
  /** Of several users: say whose each is. */
  ofOthers?: boolean;
  onRevoke: (token: Token) => void;
  onRotate?: (token: Token) => void;
}

/** API tokens: what each may do, when and from where it was used, and when it ends. */
export function TokenTable({ tokens, ofOthers = false, onRevoke, onRotate, ...rest }: TokenTableProps) {
  const now = useNow();
  return (
    <DataTable
      label="API tokens"
      rows={tokens}
      rowKey={({ key }) => key}
      columns={[
        ofOthers && { header: "User", cell: ({ user }) => user },
        {
          header: "Name",
          isRowHeader: true,
          cell: ({ name, key }) => (
            <>
              {name}
              <p className={styles.key}>{key}</p>
            </>
          ),
        },
        {
          header: "Scopes",
          cell: ({ scopes }) => (
            <div className={styles.scopes}>
              {scopes.map((scope) => (
                <Tag key={scope}>{words(scope)}</Tag>
              ))}
            </div>
          ),
        },
        {
          header: "First used",
          className: oneLine,
          attributes: ({ first_used_at: at }) => ({ title: at ? moment(at) : undefined }),
          cell: (token) => <Use at={token.first_used_at} from={token.first_used_from} now={now} />,
        },
        {
          header: "Last used",
          className: oneLine,
          attributes: ({ last_used_at: at }) => ({ title: at ? moment(at) : undefined }),
          cell: (token) => <Use at={token.last_used_at} from={token.last_used_from} now={now} />,
        },
        {
          header: "Expires",
          className: oneLine,
          attributes: ({ expires_at: at }) => ({ title: at ? moment(at) : undefined }),
          cell: (token) => (
            <>
              {expiry(token.expires_at, now)}
              {token.replaced_by && <p className={muted}>replaced by {token.replaced_by}</p>}
            </>
          ),
        },
        {
          header: "Actions",
          isHeaderHidden: true,
          className: oneLine,
          cell: (token) => (
            <>
              {onRotate && !token.replaced_by && !isOver(token.expires_at, now) && (
                <IconButton
                  label={`Rotate ${token.name}`}
                  icon={<RotateCw size={15} />}
                  onClick={() => onRotate(token)}
                />
              )}
              <IconButton label={`Revoke ${token.name}`} icon={<Trash2 size={15} />} onClick={() => onRevoke(token)} />
            </>
          ),
        },
      ]}
      {...rest}
    />
  );
}

function Use({ at, from, now }: { at: string | null; from: string | null; now: number }) {
  return (
    <>
      {at ? ago(at, now) : "never"}
      {from && <p className={muted}>{from}</p>}
    </>
  );
}

function isOver(at: string | null, now: number): boolean {
  return at !== null && Date.parse(at) <= now;
}

function expiry(at: string | null, now: number): string {
  if (at === null) return "never";
  return isOver(at, now) ? "expired" : `in ${duration((Date.parse(at) - now) / 1000)}`;
}

export function RevokeToken({ token, onClose }: { token: Token; onClose: () => void }) {
  const queries = useQueryClient();
  const say = useSay();
  const revoke = useMutation({
    mutationFn: () => revokeToken(token.key),
    onSuccess: () => queries.invalidateQueries({ queryKey: tokensQuery.queryKey }),
    onError: (error) => say("failed", error.message),
    onSettled: onClose,
  });
  return (
    <Confirm
      open
      onClose={onClose}
      title={`Revoke ${token.name} of ${token.user}?`}
      description="Programs that use it are refused from then on."
      action="Revoke"
      busy={revoke.isPending}
      onConfirm={() => revoke.mutate()}
    />
  );
}
