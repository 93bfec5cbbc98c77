import { answers, UNREACHABLE } from "@/app/lazy-page";
import { ErrorNotice } from "@/ui/feedback";
import { PageLayout } from "@/ui/layout";
import { useSay } from "@/ui/toasts";

/** How browsers and the bundler say that a file of the page did not come. Their words name no remedy. */
const NOT_FETCHED = /Unable to preload CSS|dynamically imported module|Importing a module script/;

/** A fault in the page itself. After an update of the server its old files are gone, and a reload helps. */
export function PageError({ error }: { error: unknown }) {
  const say = useSay();
  const isMissing = error instanceof Error && NOT_FETCHED.test(error.message);
  const told = isMissing ? new Error("It cannot be loaded: the server cannot be reached, or was updated.") : error;
  const retry = async (): Promise<void> => {
    // A reload without a server would end in an error page of the browser.
    if (await answers()) location.reload();
    else say("failed", UNREACHABLE);
  };
  return (
    <PageLayout title="This page failed">
      <ErrorNotice error={told} onRetry={() => void retry()} />
    </PageLayout>
  );
}
