/** A server in place of the network: tests say what it answers and read what it was asked. */

interface Asked {
  method: string;
  /** After /api/v1, without the query. */
  path: string;
  query: Record<string, string>;
  /** The edition that a change was made from. */
  ifMatch: string | null;
  body: unknown;
}

type Answer = ((asked: Asked) => unknown) | object | undefined;

/** A refusal, as the API gives it. */
export class Refusal {
  constructor(
    readonly status: number,
    readonly body: { code: string; detail: string; fields?: { field: string; problem: string; expected?: string }[] },
  ) {}
}

/** Something that is edited, in one edition of it. */
export class Edited {
  constructor(
    readonly etag: string,
    readonly body: unknown,
  ) {}
}

/** One page of a list. */
export function page<T>(results: readonly T[], next: string | null = null) {
  return { results, next, previous: null };
}

class TestServer {
  private routes = new Map<string, (asked: Asked) => unknown>();
  /** Everything that was asked, in order. */
  asked: Asked[] = [];

  /** Answer `"GET /secrets"` from now on; a function sees what was asked. Undefined is an answer without a body. */
  on(route: string, answer: Answer): void {
    this.routes.set(route, typeof answer === "function" ? (answer as (asked: Asked) => unknown) : () => answer);
  }

  /** What was sent to this route, in order. */
  sent(route: string): Asked[] {
    return this.asked.filter(({ method, path }) => `${method} ${path}` === route);
  }

  reset(): void {
    this.routes = new Map();
    this.asked = [];
  }

  readonly fetch = async (input: RequestInfo | URL, init?: RequestInit): Promise<Response> => {
    const request = input instanceof Request ? input : null;
    const url = new URL(input instanceof Request ? input.url : input, location.href);
    const method = request?.method ?? init?.method ?? "GET";
    const text = request ? await request.text() : ((init?.body as string | null | undefined) ?? "");
    const asked: Asked = {
      method,
      path: url.pathname.replace("/api/v1", ""),
      query: Object.fromEntries(url.searchParams),
      ifMatch: request?.headers.get("If-Match") ?? null,
      body: text ? (JSON.parse(text) as unknown) : undefined,
    };
    this.asked.push(asked);
    const route = this.routes.get(`${method} ${asked.path}`);
    if (!route) {
      return json(500, { code: "not_expected", detail: `The test did not expect ${method} ${asked.path}.` });
    }
    const answer = await route(asked);
    if (answer instanceof Refusal) return json(answer.status, answer.body);
    if (answer instanceof Edited) return json(200, answer.body, { ETag: answer.etag });
    return answer === undefined ? new Response(null, { status: 204 }) : json(200, answer);
  };
}

function json(status: number, body: unknown, headers: Record<string, string> = {}): Response {
  return new Response(JSON.stringify(body), { status, headers: { "Content-Type": "application/json", ...headers } });
}

export const server = new TestServer();
