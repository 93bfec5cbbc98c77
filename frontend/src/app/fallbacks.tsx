import { Link } from "@tanstack/react-router";

import { buttonClass } from "@/ui/button";
import { EmptyState, ErrorNotice } from "@/ui/feedback";
import { PageLayout } from "@/ui/layout";

export function NotFound() {
  return (
    <PageLayout title="Not found">
      <EmptyState
        title="There is no such page"
        action={
          <Link to="/" className={buttonClass()}>
            Go to the overview
          </Link>
        }
      >
        The address may be mistyped.
      </EmptyState>
    </PageLayout>
  );
}

/** A fault in the page itself. After an update of the server its old files are gone, and a reload helps. */
export function PageError({ error }: { error: unknown }) {
  return (
    <PageLayout title="This page failed">
      <ErrorNotice error={error} onRetry={() => location.reload()} />
    </PageLayout>
  );
}
