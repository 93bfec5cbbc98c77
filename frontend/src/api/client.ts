/** One way to speak to the REST API: JSON in, JSON out, every refusal an ApiError. */

import type { FieldProblem } from "@/api/types";

const BASE = "/api/v1";

export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
    readonly fields: FieldProblem[] = [],
  ) {
    super(message);
  }

  /** What the server objects to in one field, if anything. */
  problem(field: string): string | undefined {
    return this.fields.find((problem) => problem.field === field)?.problem;
  }

  /** The same, with what would be right. */
  explain(field: string): string | undefined {
    const found = this.fields.find((problem) => problem.field === field);
    return (
      found && (found.expected ? `${found.problem.replace(/\.$/, "")}; expected ${found.expected}` : found.problem)
    );
  }
}

let csrfToken = "";

export function setCsrfToken(token: string): void {
  csrfToken = token;
}

/** A random key for one POST. `crypto.randomUUID` is missing on plain-http origins, random values are not. */
export function newIdempotencyKey(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

interface RequestOptions {
  body?: unknown;
  signal?: AbortSignal;
  idempotencyKey?: string;
}

type Method = "GET" | "POST" | "PUT" | "PATCH" | "DELETE";

/** Call the API; `path` starts after /api/v1, or is the address that a list gave for its next page. */
export async function request<T>(method: Method, path: string, options: RequestOptions = {}): Promise<T> {
  const headers: Record<string, string> = { Accept: "application/json" };
  if (options.body !== undefined) headers["Content-Type"] = "application/json";
  if (method !== "GET") headers["X-CSRFToken"] = csrfToken;
  if (options.idempotencyKey) headers["Idempotency-Key"] = options.idempotencyKey;

  const response = await inTurn(options.signal, () =>
    fetch(BASE + path, {
      method,
      headers,
      credentials: "same-origin",
      body: options.body === undefined ? null : JSON.stringify(options.body),
      signal: options.signal ?? null,
    }).catch((error: unknown) => {
      if (error instanceof DOMException && error.name === "AbortError") throw error;
      throw new ApiError(0, "unreachable", "The server does not answer. The page tries again by itself.");
    }),
  );
  if (response.status === 204) return undefined as T;
  const answer: unknown = await response.json().catch(() => null);
  if (response.ok) return answer as T;
  throw refusal(response.status, answer);
}

/** How often somebody who has too much under way waits as he is told, and how long at most. */
const MOST_TURNED_AWAY = 3;
const LONGEST_TURN_SECONDS = 30;

/** Ask, and again when the server says that it is not yet this user's turn: nothing was done then. */
async function inTurn(signal: AbortSignal | undefined, ask: () => Promise<Response>): Promise<Response> {
  for (let turnedAway = 0; ; turnedAway++) {
    const response = await ask();
    // Only limits of what is under way name their policy: wrong passwords are not tried again.
    const isLimit = response.status === 429 && response.headers.has("RateLimit-Policy");
    if (!isLimit || turnedAway === MOST_TURNED_AWAY) return response;
    const seconds = Number(response.headers.get("Retry-After")) || 1;
    await pause(Math.min(seconds, LONGEST_TURN_SECONDS) * (1 + Math.random() / 4), signal);
  }
}

function pause(seconds: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, seconds * 1000);
    signal?.addEventListener("abort", () => {
      clearTimeout(timer);
      reject(new DOMException("The page was left.", "AbortError"));
    });
  });
}

function refusal(status: number, answer: unknown): ApiError {
  const { error, message, fields } = (answer ?? {}) as Partial<{
    error: string;
    message: string;
    fields: FieldProblem[];
  }>;
  return new ApiError(
    status,
    error ?? "unavailable",
    message ?? `The server answered with status ${status} and no explanation.`,
    fields ?? [],
  );
}

/** Build `?a=b&c=d` from what is set; empty when nothing is. */
export function queryString(parameters: Record<string, string | number | readonly string[] | undefined>): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters)) {
    if (value === undefined || value === "") continue;
    const text = typeof value === "object" ? value.join(",") : String(value);
    if (text) query.set(name, text);
  }
  const text = query.toString();
  return text ? `?${text}` : "";
}

/** The cursor inside the address of a list's next or previous page. */
export function cursorOf(address: string | null): string | undefined {
  if (!address) return undefined;
  return new URL(address, "http://any").searchParams.get("cursor") ?? undefined;
}
