import type { ComponentProps } from "react";
import styles from "./key.module.css";

/** What colours and lines stand for: list items, each with a `span` as its sample, sized by the caller. */
export function Key({ className, ...rest }: ComponentProps<"ul">) {
  return <ul className={[styles.key, className].filter(Boolean).join(" ")} {...rest} />;
}
