/** Draws a page or a panel as the application does: with queries, messages, a router and somebody signed in. */

import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import {
  createMemoryHistory,
  createRootRoute,
  createRoute,
  createRouter,
  RouterProvider,
} from "@tanstack/react-router";
import { render, within } from "@testing-library/react";
import type { UserEvent } from "@testing-library/user-event";
import { type FunctionComponent, Suspense } from "react";

import { aUser } from "@/testing/user";
import { ToastProvider } from "@/ui/toasts";

interface Person {
  username?: string;
  isOperator?: boolean;
  sawTour?: boolean;
  /** Roles by tenant. */
  roles?: Readonly<Record<string, "viewer" | "member" | "admin">>;
}

interface Where {
  /** The route that the page belongs to, such as `/nodes/$name`. */
  route?: string;
  /** Its address, with what is searched for. */
  at?: string;
  as?: Person;
}

/** Returns once it is drawn; what it asks is answered by `server`. */
export async function renderPage(
  Page: FunctionComponent,
  { route = "/", at = route, as = {} }: Where = {},
): Promise<{ user: UserEvent; address: () => string }> {
  const queries = new QueryClient({ defaultOptions: { queries: { retry: false } } });
  const { username = "ada", isOperator = false, sawTour = true, roles = {} } = as;
  queries.setQueryData(["me"], {
    user: { username, email: `${username}@example.org` },
    is_operator: isOperator,
    saw_tour: sawTour,
    tenants: Object.entries(roles).map(([name, role]) => ({ name, role })),
    csrf_token: "token of the session",
  });
  const root = createRootRoute();
  const page = createRoute({ getParentRoute: () => root, path: route, component: Page });
  const elsewhere = createRoute({ getParentRoute: () => root, path: "/$", component: () => <p>Another page</p> });
  const router = createRouter({
    routeTree: root.addChildren([page, elsewhere]),
    history: createMemoryHistory({ initialEntries: [at] }),
  });
  await router.load();
  const user = aUser();
  render(
    <QueryClientProvider client={queries}>
      <ToastProvider>
        <Suspense fallback={null}>
          <RouterProvider router={router as never} />
        </Suspense>
      </ToastProvider>
    </QueryClientProvider>,
  );
  return { user, address: () => router.state.location.href };
}

/** The texts of each row's cells, its header included; without the table's head. */
export function rowsOf(table: HTMLElement): string[][] {
  return within(table)
    .getAllByRole("row")
    .slice(1)
    .map((row) => [...row.children].map((cell) => cell.textContent.trim()));
}
