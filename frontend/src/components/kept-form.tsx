/** Forms that stand on a page: what was entered is kept as long as the tab is open, only what was changed is sent, and what
 * others change meanwhile is not undone. */

import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";

import { ApiError } from "@/api/client";
import type { ClusterSettings } from "@/api/schema";
import { changeClusterSettings, clusterSettingsEdition, clusterSettingsQuery } from "@/api/settings-queries";
import { useEdition, useRefusal } from "@/components/edition";
import { isSame } from "@/components/same";
import { useSession } from "@/components/session";
import { Button } from "@/ui/button";
import { Row } from "@/ui/layout";
import { useSay } from "@/ui/toasts";

/** The changes after one more; what is again as it was is none. */
export function withChange<T extends object>(whole: T, changes: Partial<T>, changed: Partial<T>): Partial<T> {
  const all = { ...changes, ...changed };
  return only(all, (name) => !isSame(all[name], whole[name]));
}

/** The changes that are left once some were saved: those that were made meanwhile. */
export function unsaved<T extends object>(changes: Partial<T>, saved: Partial<T>): Partial<T> {
  return only(changes, (name) => !isSame(changes[name], saved[name]));
}

function only<T extends object>(changes: Partial<T>, isKept: (name: keyof T) => boolean): Partial<T> {
  const names = Object.keys(changes) as (keyof T)[];
  return Object.fromEntries(names.filter(isKept).map((name) => [name, changes[name]])) as Partial<T>;
}

const kept = new Map<string, unknown>();

/** Like `useState`, for one person and one place; `name` says which. */
export function useKept<T>(name: string, initial: T): [T, (next: (now: T) => T) => void] {
  const key = `${useSession().user.username} ${name}`;
  const newest = () => (kept.has(key) ? (kept.get(key) as T) : initial);
  const [value, setValue] = useState(newest);
  const keep = (next: (now: T) => T) => {
    const then = next(newest());
    kept.set(key, then);
    setValue(then);
  };
  return [value, keep];
}

/** A number that was emptied is undefined, until another is entered. */
type Changes = { [K in keyof ClusterSettings]?: ClusterSettings[K] | undefined };

/** The settings with what was entered; `form` says by which form, `done` what is said when it was saved. */
export function useSettingsForm(settings: ClusterSettings, { form, done }: { form: string; done: string }) {
  const say = useSay();
  const queries = useQueryClient();
  const [changes, keep] = useKept<Changes>(`settings ${form}`, {});
  const [discarded, setDiscarded] = useState(0);
  const editing = useEdition(clusterSettingsEdition, settings);
  const save = useMutation({
    mutationFn: (sent: Changes) => changeClusterSettings(sent, editing.edition),
    onSuccess: (saved, sent) => {
      queries.setQueryData(clusterSettingsQuery.queryKey, saved);
      void editing.reload();
      keep((now) => unsaved(now, sent));
      say("done", done);
    },
  });
  const { notice, onReload } = useRefusal(save, {
    error: editing.error,
    reload: () => Promise.all([editing.reload(), queries.refetchQueries({ queryKey: clusterSettingsQuery.queryKey })]),
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
    isSaving: save.isPending || editing.isReading,
    /** What is not said at a field. */
    notice: notice instanceof ApiError && notice.fields.length > 0 ? null : notice,
    onReload,
    /** What the server objects to, by the field's name or path. */
    problem: (field: keyof ClusterSettings | `${keyof ClusterSettings}.${string}`) =>
      save.error instanceof ApiError ? save.error.explain(field) : undefined,
  };
}

interface SaveButtonsProps {
  /** Whether there is something to save. */
  isChanged: boolean;
  busy: boolean;
  onDiscard: () => void;
}

/** At the foot of a form that stands on a page. */
export function SaveButtons({ isChanged, busy, onDiscard }: SaveButtonsProps) {
  return (
    <Row>
      <Button type="submit" busy={busy} disabled={!isChanged}>
        Save
      </Button>
      {isChanged && (
        <Button look="quiet" onClick={onDiscard}>
          Discard the changes
        </Button>
      )}
    </Row>
  );
}
