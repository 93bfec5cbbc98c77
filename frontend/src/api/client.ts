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

  let response: Response;
  try {
    response = await fetch(BASE + path, {
      method,
      headers,
      credentials: "same-origin",
      body: options.body === undefined ? null : JSON.stringify(options.body),
      signal: options.signal ?? null,
    });
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new ApiError(0, "unreachable", "The server does not answer. The page tries again by itself.");
  }
  if (response.status === 204) return undefined as T;
  const answer: unknown = await response.json().catch(() => null);
  if (response.ok) return answer as T;
  throw refusal(response.status, answer);
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
