import type { ButtonHTMLAttributes, ReactNode } from "react";

import styles from "@/ui/button.module.css";

export type ButtonLook = "primary" | "plain" | "quiet" | "danger";

interface ButtonProps extends ButtonHTMLAttributes<HTMLButtonElement> {
  look?: ButtonLook;
  icon?: ReactNode;
  /** Shows that the action is under way and refuses a second click. */
  busy?: boolean;
}

export function Button({ look = "plain", icon, busy = false, children, className, disabled, ...rest }: ButtonProps) {
  return (
    <button
      type="button"
      {...rest}
      className={buttonClass(look, className)}
      disabled={disabled === true || busy}
      aria-busy={busy || undefined}
    >
      {busy ? <span className={styles.spinner} aria-hidden /> : icon}
      {children}
    </button>
  );
}

/** The same look for a link. */
export function buttonClass(look: ButtonLook = "plain", more?: string): string {
  return [styles.button, styles[look], more].filter(Boolean).join(" ");
}

interface IconButtonProps extends ButtonHTMLAttributes<HTMLButtonElement> {
  label: string;
  icon: ReactNode;
}

export function IconButton({ label, icon, className, ...rest }: IconButtonProps) {
  return (
    <button
      type="button"
      aria-label={label}
      title={label}
      {...rest}
      className={[styles.icon, className].filter(Boolean).join(" ")}
    >
      {icon}
    </button>
  );
}
