import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState, type SyntheticEvent } from "react";

import { ApiError, request } from "@/api/client";
import { policiesQuery } from "@/api/queries";
import type { ClusterSettings, Plugins } from "@/api/types";
import { useSession } from "@/components/session";
import { OverrunNotice } from "@/features/virtual-clusters/overrun-notice";
import { PluginChoice } from "@/features/virtual-clusters/plugin-choice";
import { formatPlugin, inWords, parsePlugin } from "@/features/virtual-clusters/plugin-text";
import { Button } from "@/ui/button";
import { ErrorNotice } from "@/ui/feedback";
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
        <SpareForm key={`${data.spare_policy} ${data.spare_placer}`} settings={data} />
      ) : (
        <Facts
          facts={[
            ["Policy", inWords(parsePlugin(data.spare_policy))],
            ["Placer", inWords(parsePlugin(data.spare_placer))],
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
  const { spare_policy, spare_placer } = settings;
  const [draft, setDraft] = useState({ spare_policy, spare_placer });
  const save = useMutation({
    mutationFn: () => request<ClusterSettings>("PATCH", PATH, { body: draft }),
    onSuccess: (saved) => {
      queries.setQueryData(KEY, saved);
      say("done", "Saved how spare GPUs are handed out.");
    },
  });
  const refusal = save.error instanceof ApiError ? save.error : null;
  const submit = (event: SyntheticEvent) => {
    event.preventDefault();
    save.mutate();
  };
  const choice = (label: string, name: keyof typeof draft, plugins: Plugins["policies"] | undefined) => (
    <PluginChoice
      label={label}
      plugins={plugins}
      chosen={parsePlugin(draft[name])}
      onChange={(chosen) => setDraft({ ...draft, [name]: formatPlugin(chosen) })}
      problem={refusal?.problem(name)}
    />
  );
  return (
    <form className={styles.form} onSubmit={submit}>
      {refusal && <ErrorNotice error={refusal} />}
      <div className={styles.pair}>
        {choice("Policy of opportunistic jobs", "spare_policy", plugins?.policies)}
        {choice("Placer of opportunistic jobs", "spare_placer", plugins?.placers)}
      </div>
      <div>
        <Button type="submit" busy={save.isPending}>
          Save
        </Button>
      </div>
    </form>
  );
}
