import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState, type SyntheticEvent } from "react";

import { ApiError, request } from "@/api/client";
import { policiesQuery } from "@/api/queries";
import type { ClusterSettings, Plugins } from "@/api/types";
import { duration } from "@/components/format";
import { useSession } from "@/components/session";
import { OverrunNotice } from "@/features/virtual-clusters/overrun-notice";
import { PluginChoice } from "@/features/virtual-clusters/plugin-choice";
import { formatPlugin, inWords, parsePlugin } from "@/features/virtual-clusters/plugin-text";
import { Button } from "@/ui/button";
import { ErrorNotice } from "@/ui/feedback";
import { Field, NumberInput } from "@/ui/field";
import { Facts, Panel } from "@/ui/layout";
import { useSay } from "@/ui/toasts";
import styles from "@/features/virtual-clusters/virtual-clusters.module.css";

const KEY = ["cluster-settings"];
const PATH = "/cluster/settings";
/** The stream does not tell when the policy begins to take too long, and when it no longer does. */
const LOOK_AGAIN_MS = 10_000;

/** How the GPUs that no virtual cluster uses are handed out to opportunistic jobs; operators change it. */
export function SpareSettings() {
  const me = useSession();
  const { data } = useQuery({
    queryKey: KEY,
    queryFn: ({ signal }) => request<ClusterSettings>("GET", PATH, { signal }),
    refetchInterval: LOOK_AGAIN_MS,
  });
  if (!data) return null;
  return (
    <Panel title="Spare GPUs">
      {data.overrun && <OverrunNotice policy={parsePlugin(data.spare_policy).name} overrun={data.overrun} />}
      {me.is_operator ? (
        <SpareForm key={JSON.stringify({ ...data, overrun: null })} settings={data} />
      ) : (
        <Facts
          facts={[
            ["Policy", inWords(parsePlugin(data.spare_policy))],
            ["Placer", inWords(parsePlugin(data.spare_placer))],
            ["Jobs displaced in a round", data.preemptions_per_round ?? "any number"],
            ["Back-off", `${duration(data.backoff_seconds)}, up to ${duration(data.most_backoff_seconds)}`],
          ]}
        />
      )}
    </Panel>
  );
}

function SpareForm({ settings }: { settings: ClusterSettings }) {
  const say = useSay();
  const queries = useQueryClient();
  const plugins = useQuery(policiesQuery).data;
  // What is only told is not sent back: JSON leaves out what is undefined.
  const [draft, setDraft] = useState({ ...settings, overrun: undefined });
  const save = useMutation({
    mutationFn: () => request<ClusterSettings>("PATCH", PATH, { body: draft }),
    onSuccess: (saved) => {
      queries.setQueryData(KEY, saved);
      say("done", "Saved how spare GPUs are handed out, and the bounds of preemptions.");
    },
  });
  const refusal = save.error instanceof ApiError ? save.error : null;
  const submit = (event: SyntheticEvent) => {
    event.preventDefault();
    save.mutate();
  };
  const choice = (label: string, name: "spare_policy" | "spare_placer", plugins: Plugins["policies"] | undefined) => (
    <PluginChoice
      label={label}
      plugins={plugins}
      chosen={parsePlugin(draft[name])}
      onChange={(chosen) => setDraft({ ...draft, [name]: formatPlugin(chosen) })}
      problem={refusal?.problem(name)}
    />
  );
  const number = (
    label: string,
    name: "preemptions_per_round" | "backoff_seconds" | "most_backoff_seconds",
    hint: string,
  ) => (
    <Field label={label} hint={hint} problem={refusal?.problem(name)}>
      {(attributes) => (
        <NumberInput
          {...attributes}
          min={0}
          value={draft[name] ?? undefined}
          onChange={(value) => setDraft({ ...draft, [name]: value ?? (name === "preemptions_per_round" ? null : 0) })}
        />
      )}
    </Field>
  );
  return (
    <form className={styles.form} onSubmit={submit}>
      {refusal && <ErrorNotice error={refusal} />}
      <div className={styles.pair}>
        {choice("Policy of opportunistic jobs", "spare_policy", plugins?.policies)}
        {choice("Placer of opportunistic jobs", "spare_placer", plugins?.placers)}
      </div>
      <div className={styles.pair}>
        {number("Jobs displaced in a round", "preemptions_per_round", "By policies, at most; empty: any number")}
        {number("Back-off in seconds", "backoff_seconds", "After a preemption that came too early; doubled each time")}
        {number("Longest back-off in seconds", "most_backoff_seconds", "Until then the job does not borrow GPUs")}
      </div>
      <div>
        <Button type="submit" busy={save.isPending}>
          Save
        </Button>
      </div>
    </form>
  );
}
