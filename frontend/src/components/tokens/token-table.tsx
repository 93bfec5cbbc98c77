import { RotateCw, Trash2 } from "lucide-react";

import type { Token } from "@/api/types";
import { ago, duration, moment, words } from "@/components/format";
import { useNow } from "@/components/now";
import { Tag } from "@/components/state-badge";
import { IconButton } from "@/ui/button";
import { muted, oneLine, TableFrame } from "@/ui/layout";
import styles from "@/components/tokens/tokens.module.css";

interface TokenTableProps {
  tokens: readonly Token[];
  /** Of several users: say whose each is. */
  ofOthers?: boolean;
  onRevoke: (token: Token) => void;
  onRotate?: (token: Token) => void;
}

/** API tokens: what each may do, when and from where it was used, and when it ends. */
export function TokenTable({ tokens, ofOthers = false, onRevoke, onRotate }: TokenTableProps) {
  const now = useNow();
  return (
    <TableFrame label="API tokens">
      <thead>
        <tr>
          {ofOthers && <th>User</th>}
          <th>Name</th>
          <th>Scopes</th>
          <th>First used</th>
          <th>Last used</th>
          <th>Expires</th>
          <th>
            <span className="visually-hidden">Actions</span>
          </th>
        </tr>
      </thead>
      <tbody>
        {tokens.map((token) => (
          <tr key={token.key}>
            {ofOthers && <td>{token.user}</td>}
            <td>
              {token.name}
              <p className={styles.key}>{token.key}</p>
            </td>
            <td>
              <div className={styles.scopes}>
                {token.scopes.map((scope) => (
                  <Tag key={scope}>{words(scope)}</Tag>
                ))}
              </div>
            </td>
            <Use at={token.first_used_at} from={token.first_used_from} now={now} />
            <Use at={token.last_used_at} from={token.last_used_from} now={now} />
            <td className={oneLine} title={token.expires_at ? moment(token.expires_at) : undefined}>
              {expiry(token.expires_at, now)}
              {token.replaced_by && <p className={muted}>replaced by {token.replaced_by}</p>}
            </td>
            <td className={oneLine}>
              {onRotate && !token.replaced_by && !isOver(token.expires_at, now) && (
                <IconButton
                  label={`Rotate ${token.name}`}
                  icon={<RotateCw size={15} />}
                  onClick={() => onRotate(token)}
                />
              )}
              <IconButton label={`Revoke ${token.name}`} icon={<Trash2 size={15} />} onClick={() => onRevoke(token)} />
            </td>
          </tr>
        ))}
      </tbody>
    </TableFrame>
  );
}

function Use({ at, from, now }: { at: string | null; from: string | null; now: number }) {
  return (
    <td className={oneLine} title={at ? moment(at) : undefined}>
      {at ? ago(at, now) : "never"}
      {from && <p className={muted}>{from}</p>}
    </td>
  );
}

function isOver(at: string | null, now: number): boolean {
  return at !== null && Date.parse(at) <= now;
}

function expiry(at: string | null, now: number): string {
  if (at === null) return "never";
  return isOver(at, now) ? "expired" : `in ${duration((Date.parse(at) - now) / 1000)}`;
}
