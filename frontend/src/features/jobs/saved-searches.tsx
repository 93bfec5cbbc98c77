import { useState } from "react";

import type { JobSearch } from "@/components/job-search";
import { Button } from "@/ui/button";
import { onDemand } from "@/ui/on-demand";

const SavedSearchesDialog = onDemand(
  async () => (await import("@/features/jobs/saved-searches-dialog")).SavedSearchesDialog,
);

/** Opens the searches that have a name, one's own and shared ones, and gives the present one a name. */
export function SavedSearches({ search }: { search: JobSearch }) {
  const [isOpen, setOpen] = useState(false);
  return (
    <>
      <Button look="quiet" onClick={() => setOpen(true)}>
        Saved searches
      </Button>
      {isOpen && <SavedSearchesDialog search={search} onClose={() => setOpen(false)} />}
    </>
  );
}
