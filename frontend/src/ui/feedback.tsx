import { Check, CircleAlert, Copy } from "lucide-react";
import { useState, type ReactNode } from "react";

import { Button, IconButton } from "@/ui/button";
import styles from "@/ui/feedback.module.css";

/** What a place says when there is nothing to show, and what could be done about it. */
export function EmptyState({ title, children, action }: { title: string; children?: ReactNode; action?: ReactNode }) {
  return (
    <div className={styles.empty}>
      <svg viewBox="0 0 46 30" width="69" height="45" aria-hidden className={styles.plots}>
        {[0, 1, 2, 3, 4, 5].map((plot) => (
          <rect
            key={plot}
            x={(plot % 3) * 16 + 0.5}
            y={Math.floor(plot / 3) * 16 + 0.5}
            width="13"
            height="13"
            rx="2"
          />
        ))}
      </svg>
      <p className={styles.title}>{title}</p>
      {children && <div className={styles.text}>{children}</div>}
      {action}
    </div>
  );
}

/** What a role may not do is refused as often as it is asked. */
function isForbidden(error: unknown): boolean {
  return error instanceof Error && "status" in error && error.status === 403;
}

export function ErrorNotice({ error, onRetry }: { error: unknown; onRetry?: () => void }) {
  return (
    <div role="alert" className={styles.error}>
      <CircleAlert size={16} aria-hidden />
      <span>{error instanceof Error ? error.message : "Something went wrong."}</span>
      {onRetry && !isForbidden(error) && (
        <Button look="quiet" onClick={onRetry}>
          Try again
        </Button>
      )}
    </div>
  );
}

/** Says that what a form changes is not what it began with, and fetches what it is now. */
export function OutdatedNotice({ error, onReload }: { error: Error; onReload: () => void }) {
  return (
    <div className={styles.error} role="alert">
      <CircleAlert size={16} aria-hidden />
      <span>{error.message} What you entered stays.</span>
      <Button look="quiet" onClick={onReload}>
        Load the new state
      </Button>
    </div>
  );
}

export function Notice({
  tone = "waiting",
  icon,
  children,
}: {
  tone?: "waiting" | "failed" | "running";
  icon?: ReactNode;
  children: ReactNode;
}) {
  return (
    <div className={`${styles.notice} ${styles[tone]}`}>
      {icon}
      <div>{children}</div>
    </div>
  );
}

/** A grey bar where text will be. */
export function Skeleton({ width = "100%", height = "1em" }: { width?: string; height?: string }) {
  return <span className={styles.skeleton} style={{ width, height }} aria-hidden />;
}

export function SkeletonLines({ count = 4 }: { count?: number }) {
  return (
    <div className={styles.lines} role="status" aria-label="Loading">
      {Array.from({ length: count }, (_, line) => (
        <Skeleton key={line} width={`${92 - ((line * 17) % 40)}%`} />
      ))}
    </div>
  );
}

export function CopyButton({ text, label = "Copy" }: { text: string; label?: string }) {
  const [copied, setCopied] = useState(false);
  const copy = async () => {
    await copyText(text);
    setCopied(true);
    setTimeout(() => setCopied(false), 1500);
  };
  return (
    <IconButton
      label={copied ? "Copied" : label}
      icon={copied ? <Check size={15} /> : <Copy size={15} />}
      onClick={() => void copy()}
    />
  );
}

/** The clipboard interface exists on secure origins only; elsewhere a hidden field does. */
async function copyText(text: string): Promise<void> {
  if (window.isSecureContext) {
    await navigator.clipboard.writeText(text);
    return;
  }
  const field = document.createElement("textarea");
  field.value = text;
  field.className = "visually-hidden";
  document.body.append(field);
  field.select();
  // Deprecated, and still the only way on a plain-http origin.
  // eslint-disable-next-line @typescript-eslint/no-deprecated
  document.execCommand("copy");
  field.remove();
}
