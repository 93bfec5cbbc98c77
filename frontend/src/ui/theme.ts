/** Light, dark, or whatever the system says; remembered in this browser. */

import { useSyncExternalStore } from "react";

export type ThemeChoice = "system" | "light" | "dark";

const STORAGE_KEY = "allot-theme";
const systemIsDark = window.matchMedia("(prefers-color-scheme: dark)");
const listeners = new Set<() => void>();

function chosen(): ThemeChoice {
  const stored = localStorage.getItem(STORAGE_KEY);
  return stored === "light" || stored === "dark" ? stored : "system";
}

function apply(): void {
  const choice = chosen();
  document.documentElement.dataset.theme = choice === "system" ? (systemIsDark.matches ? "dark" : "light") : choice;
  for (const listener of listeners) listener();
}

export function startTheme(): void {
  systemIsDark.addEventListener("change", apply);
  apply();
}

export function chooseTheme(choice: ThemeChoice): void {
  localStorage.setItem(STORAGE_KEY, choice);
  apply();
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

export function useThemeChoice(): ThemeChoice {
  return useSyncExternalStore(subscribe, chosen);
}

/** The theme in force; canvases and charts draw again when it changes. */
export function useTheme(): "light" | "dark" {
  return useSyncExternalStore(subscribe, () => (document.documentElement.dataset.theme === "dark" ? "dark" : "light"));
}

/** A colour token's value, for what CSS does not paint. */
export function colour(token: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${token}`).trim();
}
