/** The one client of the REST API: typed by its schema, and every refusal is an ApiError. */

import createClient from "openapi-fetch";

import type { Error as Refusal, FieldProblem, paths } from "@/api/schema";

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
    return found && explained(found);
  }
}

/** "is taken; expected another name". Some of what is expected is a sentence, "Ask for fewer."; it stays one. */
export function explained({ problem, expected }: Pick<FieldProblem, "problem" | "expected">): string {
  if (!expected || expected === problem) return problem;
  const said = problem.replace(/\.$/, "");
  return /^[A-Z].*\.$/.test(expected) ? `${said}. ${expected}` : `${said}; expected ${expected}`;
}

let csrfToken = "";

export function setCsrfToken(token: string): void {
  csrfToken = token;
}

/** What a request that changes something carries beside its cookie. */
export function changingHeaders(): Record<string, string> {
  return { Accept: "application/json", "X-CSRFToken": csrfToken };
}

/** A random key for one POST. `crypto.randomUUID` is missing on plain-http origins, random values are not. */
export function newIdempotencyKey(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** The header of a POST that is done once, however often it is sent. */
export function once(key = newIdempotencyKey()): { "Idempotency-Key": string } {
  return { "Idempotency-Key": key };
}

/** The schema's routes, without what they all begin with. */
type Routes = { [Path in keyof paths as Path extends `${typeof BASE}${infer Rest}` ? Rest : never]: paths[Path] };

/** `api.GET("/jobs/{job_id}", ...)`: parameters, body and answer are typed by the server's schema. */
export const api = createClient<Routes, "application/json">({
  // Tests have no address to start from, and a request without a whole one is an error there.
  baseUrl: (typeof location === "undefined" ? "http://localhost" : location.origin) + BASE,
  credentials: "same-origin",
  headers: { Accept: "application/json" },
  querySerializer: (query) => queryString(query as QueryParameters).slice(1),
  fetch: (request) => inTurn(request),
});

api.use({
  onRequest: ({ request }) => {
    if (request.method !== "GET") request.headers.set("X-CSRFToken", csrfToken);
  },
});

/** What the server answered; a refusal is thrown as an ApiError. */
export async function answerOf<T>(call: Promise<{ data?: T; error?: unknown; response: Response }>): Promise<T> {
  const { data, error, response } = await call;
  if (!response.ok) throw refusalOf(response.status, error);
  return data as T;
}

/** How often somebody who has too much under way waits as he is told, and how long at most. */
const MOST_TURNED_AWAY = 3;
const LONGEST_TURN_SECONDS = 30;

/** Send, and again when the server says that it is not yet this user's turn: nothing was done then. */
async function inTurn(request: Request): Promise<Response> {
  for (let turnedAway = 0; ; turnedAway++) {
    const response = await send(request);
    // Only limits of what is under way name their policy: wrong passwords are not tried again.
    const isLimit = response.status === 429 && response.headers.has("RateLimit-Policy");
    if (!isLimit || turnedAway === MOST_TURNED_AWAY) return response;
    const seconds = Number(response.headers.get("Retry-After")) || 1;
    await pause(Math.min(seconds, LONGEST_TURN_SECONDS) * (1 + Math.random() / 4), request.signal);
  }
}

async function send(request: Request): Promise<Response> {
  try {
    // A body can be read once, and may have to be sent again.
    return await fetch(request.clone());
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new ApiError(0, "unreachable", "The server does not answer. The page retries automatically.");
  }
}

function pause(seconds: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, seconds * 1000);
    signal.addEventListener("abort", () => {
      clearTimeout(timer);
      reject(new DOMException("The page was closed.", "AbortError"));
    });
  });
}

/** The error of an answer that is none of success. */
export function refusalOf(status: number, answer: unknown): ApiError {
  // What stands before the server may refuse too, in its own words.
  const { code, detail, fields } = (typeof answer === "object" ? (answer ?? {}) : {}) as Partial<Refusal>;
  return new ApiError(
    status,
    code ?? "unavailable",
    detail ?? `The server answered with status ${status} and no explanation.`,
    fields ?? [],
  );
}

type QueryParameters = Record<string, string | number | boolean | readonly string[] | undefined>;

/** Build `?a=b&c=d` from what is set; empty when nothing is. */
export function queryString(parameters: QueryParameters): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters)) {
    if (value === undefined || value === "") continue;
    const text = typeof value === "object" ? value.join(",") : String(value);
    if (text) query.set(name, text);
  }
  const text = query.toString();
  return text ? `?${text}` : "";
}

/** As every list of the API is answered. */
export interface Page<T> {
  results: T[];
  next: string | null;
  previous: string | null;
}

const LARGEST_PAGE = 200;

/** Every result of a list, whose pages `ask` fetches. */
export async function everyPage<T>(
  ask: (which: { page_size: number; cursor?: string | undefined }) => Promise<Page<T>>,
  pageSize = LARGEST_PAGE,
): Promise<T[]> {
  const all: T[] = [];
  let cursor: string | undefined;
  do {
    const page = await ask({ page_size: pageSize, cursor });
    all.push(...page.results);
    cursor = cursorOf(page.next);
  } while (cursor);
  return all;
}

/** The cursor inside the address of a list's next or previous page. */
export function cursorOf(address: string | null): string | undefined {
  if (!address) return undefined;
  return new URL(address, "http://any").searchParams.get("cursor") ?? undefined;
}
