/** Forms of the cluster's settings: each changes some of them, and what others change meanwhile is not undone. */

import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";

import { ApiError } from "@/api/client";
import { changeClusterSettings, clusterSettingsQuery } from "@/api/settings-queries";
import type { ClusterSettings } from "@/api/schema";
import { unsaved, withChange } from "@/components/changes";
import { useKept } from "@/components/kept";
import { useSay } from "@/ui/toasts";

/** A number that was emptied is undefined, until another is entered. */
type Changes = { [K in keyof ClusterSettings]?: ClusterSettings[K] | undefined };

/** The settings with what was entered; `form` says by which form, `done` what is said when it was saved. */
export function useSettingsForm(settings: ClusterSettings, { form, done }: { form: string; done: string }) {
  const say = useSay();
  const queries = useQueryClient();
  const [changes, keep] = useKept<Changes>(`settings ${form}`, {});
  const [discarded, setDiscarded] = useState(0);
  const save = useMutation({
    mutationFn: (sent: Changes) => changeClusterSettings(sent),
    onSuccess: (saved, sent) => {
      queries.setQueryData(clusterSettingsQuery.queryKey, saved);
      keep((now) => unsaved(now, sent));
      say("done", done);
    },
  });
  return {
    draft: { ...settings, ...changes },
    change: (changed: Changes) => keep((now) => withChange(settings, now, changed)),
    isChanged: Object.keys(changes).length > 0,
    /** How often what was entered was thrown away. */
    discarded,
    discard: () => {
      keep(() => ({}));
      setDiscarded((now) => now + 1);
      save.reset();
    },
    save: () => save.mutate(changes),
    isSaving: save.isPending,
    /** What is not said at a field. */
    otherError: save.error instanceof ApiError && save.error.fields.length > 0 ? null : save.error,
    /** What the server objects to, by the field's name or path. */
    problem: (field: keyof ClusterSettings | `${keyof ClusterSettings}.${string}`) =>
      save.error instanceof ApiError ? save.error.explain(field) : undefined,
  };
}
