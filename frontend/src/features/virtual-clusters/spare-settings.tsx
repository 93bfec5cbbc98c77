import { useQuery } from "@tanstack/react-query";
import { Hourglass } from "lucide-react";

import { policiesQuery } from "@/api/queries";
import type { ClusterSettings, Overrun, Plugins } from "@/api/schema";
import { clusterSettingsQuery } from "@/api/settings-queries";
import { duration, secondsBetween } from "@/components/format";
import { SaveButtons, useSettingsForm } from "@/components/kept-form";
import { useNow } from "@/components/now";
import { useSession } from "@/components/session";
import { inWords, PluginChoice } from "@/features/virtual-clusters/plugin-choice";
import { Notice } from "@/ui/feedback";
import { Field, NumberInput, SelectField } from "@/ui/field";
import { FieldRow, Form } from "@/ui/form";
import { Facts, Panel } from "@/ui/layout";

/** How the GPUs that no virtual cluster uses are handed out to opportunistic jobs; operators change it. */
export function SpareSettings() {
  const me = useSession();
  const { data } = useQuery(clusterSettingsQuery);
  if (!data) return null;
  return (
    <Panel title="Spare GPUs">
      {data.overrun && <OverrunNotice policy={data.spare_policy_plugin.name} overrun={data.overrun} />}
      {me.is_operator ? (
        <SpareForm settings={data} />
      ) : (
        <Facts
          facts={[
            ["Policy", inWords(data.spare_policy_plugin)],
            ["Placer", inWords(data.spare_placer_plugin)],
            ["Maximum preemptions per round", data.preemptions_per_round ?? "any number"],
            ["CPUs and memory", data.auxiliary],
            ["Back-off", `${duration(data.backoff_seconds)}, up to ${duration(data.most_backoff_seconds)}`],
          ]}
        />
      )}
    </Panel>
  );
}

function SpareForm({ settings }: { settings: ClusterSettings }) {
  const plugins = useQuery(policiesQuery).data;
  const form = useSettingsForm(settings, {
    form: "spare",
    done: "Saved the settings of spare GPUs and the limits on preemption.",
  });
  const { draft, change, problem } = form;
  const choice = (
    label: string,
    name: "spare_policy_plugin" | "spare_placer_plugin",
    plugins: Plugins["policies"] | undefined,
  ) => (
    <PluginChoice
      // Its fields hold what is being typed: they begin anew with another value in force, and when it is discarded.
      key={`${inWords(settings[name])} ${form.discarded}`}
      label={label}
      plugins={plugins}
      chosen={draft[name]}
      onChange={(chosen) => change({ [name]: chosen })}
      problem={(field) => problem(`${name}.${field}`)}
    />
  );
  return (
    <Form onSubmit={form.save} notice={form.notice} onReload={form.onReload}>
      <FieldRow>
        {choice("Policy of opportunistic jobs", "spare_policy_plugin", plugins?.policies)}
        {choice("Placer of opportunistic jobs", "spare_placer_plugin", plugins?.placers)}
      </FieldRow>
      <FieldRow>
        <Field
          label="Maximum preemptions per round"
          hint="By policies; blank: unlimited"
          problem={problem("preemptions_per_round")}
        >
          {(attributes) => (
            <NumberInput
              {...attributes}
              min={0}
              value={draft.preemptions_per_round ?? undefined}
              onChange={(jobs) => change({ preemptions_per_round: jobs ?? null })}
            />
          )}
        </Field>
        <Field
          label="Back-off in seconds"
          hint="Delay after an early preemption; doubles each time"
          problem={problem("backoff_seconds")}
        >
          {(attributes) => (
            <NumberInput
              {...attributes}
              required
              min={0}
              step="any"
              value={draft.backoff_seconds}
              onChange={(seconds) => change({ backoff_seconds: seconds })}
            />
          )}
        </Field>
        <Field
          label="Longest back-off in seconds"
          hint="Until then the job does not borrow GPUs"
          problem={problem("most_backoff_seconds")}
        >
          {(attributes) => (
            <NumberInput
              {...attributes}
              required
              min={0}
              step="any"
              value={draft.most_backoff_seconds}
              onChange={(seconds) => change({ most_backoff_seconds: seconds })}
            />
          )}
        </Field>
      </FieldRow>
      <FieldRow>
        <SelectField
          label="CPUs and memory of jobs that do not request them"
          hint="Each job gets CPUs and memory in proportion to its GPUs, and more if it needs more"
          problem={problem("auxiliary")}
          value={draft.auxiliary}
          options={[
            { value: "tune", label: "tune: as much as each job can use, while it lasts" },
            { value: "greedy", label: "greedy: in the order of the policy" },
            { value: "proportional", label: "proportional: only that share" },
          ]}
          onChange={(event) => change({ auxiliary: event.target.value as ClusterSettings["auxiliary"] })}
        />
      </FieldRow>
      <SaveButtons isChanged={form.isChanged} busy={form.isSaving} onDiscard={form.discard} />
    </Form>
  );
}

/** Says that the chosen policy does not decide at present, since when and why. */
export function OverrunNotice({ policy, overrun }: { policy: string; overrun: Overrun }) {
  const seconds = secondsBetween(overrun.since, null, useNow()) ?? 0;
  return (
    <Notice icon={<Hourglass size={16} aria-hidden />}>
      For {duration(seconds)} now order of submission has decided in place of {policy}: {overrun.message}. It is retried
      automatically.
    </Notice>
  );
}
