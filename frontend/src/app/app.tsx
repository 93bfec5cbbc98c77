import { QueryCache, QueryClient, QueryClientProvider, useQuery, useQueryClient } from "@tanstack/react-query";
import { RouterProvider } from "@tanstack/react-router";
import { useEffect, useLayoutEffect } from "react";

import { ApiError, setCsrfToken } from "@/api/client";
import { meQuery } from "@/api/queries";
import { startLive } from "@/app/live-queries";
import { router } from "@/app/router";
import { SignInPage } from "@/features/session/sign-in-page";
import { ErrorNotice } from "@/ui/feedback";
import { onDemand } from "@/ui/on-demand";
import { ToastProvider } from "@/ui/toasts";
import styles from "@/app/app.module.css";

const INVITATION_PATH = "/invitation";
const InvitationPage = onDemand(async () => (await import("@/features/session/invitation-page")).InvitationPage);

const queryClient: QueryClient = new QueryClient({
  defaultOptions: {
    queries: {
      // The stream says when something changed; REST is asked again on reconnect and every minute.
      staleTime: 60_000,
      refetchOnWindowFocus: false,
      retry: (failures, error) =>
        failures < 3 && !(error instanceof ApiError && error.status >= 400 && error.status < 500),
    },
  },
  queryCache: new QueryCache({
    onError: (error) => {
      if (error instanceof ApiError && error.status === 401) queryClient.setQueryData(meQuery.queryKey, null);
    },
  }),
});

export function App() {
  return (
    <QueryClientProvider client={queryClient}>
      <ToastProvider>
        <Gate />
      </ToastProvider>
    </QueryClientProvider>
  );
}

function Gate() {
  const {
    data: me,
    error,
    refetch,
  } = useQuery({ ...meQuery, refetchInterval: (query) => (query.state.error ? 3000 : false) });
  // The code of the page comes while the server says who is signed in.
  useEffect(() => void router.load(), []);
  if (me !== undefined && window.location.pathname === INVITATION_PATH) return <InvitationPage me={me} />;
  if (me) return <SignedIn csrfToken={me.csrf_token} key={me.user.username} />;
  if (me === null) return <SignInPage />;
  if (error) {
    return (
      <main className={styles.alone}>
        <ErrorNotice error={error} onRetry={() => void refetch()} />
      </main>
    );
  }
  return <main className={styles.alone} aria-busy aria-label="Loading" />;
}

function SignedIn({ csrfToken }: { csrfToken: string }) {
  const queries = useQueryClient();
  // Before the effects of the page, which send its first requests.
  useLayoutEffect(() => setCsrfToken(csrfToken), [csrfToken]);
  useEffect(() => startLive(queries), [queries]);
  return <RouterProvider router={router} />;
}
