import { useMutation, useQueryClient } from "@tanstack/react-query";

import { setTemplate, templatesQuery } from "@/api/template-queries";
import { useSentForm } from "@/components/sent-form";
import { FormDialog } from "@/ui/dialog";
import { TextField } from "@/ui/field";
import { useSay } from "@/ui/toasts";

interface Props {
  tenant: string;
  spec: Record<string, unknown>;
  onClose: () => void;
}

/** Asks for the name of a template, and saves what is written under it. */
export function SaveTemplate({ tenant, spec, onClose }: Props) {
  const say = useSay();
  const queries = useQueryClient();
  const save = useMutation({
    mutationFn: ({ name, summary }: { name: string; summary: string }) => setTemplate(tenant, name, summary, spec),
    onSuccess: ({ name }) => {
      say("done", `Saved the template ${name}.`);
      onClose();
    },
    onSettled: () => queries.invalidateQueries({ queryKey: templatesQuery(tenant).queryKey }),
  });
  const form = useSentForm({ name: typeof spec.name === "string" ? spec.name : "", summary: "" }, save);
  return (
    <FormDialog
      title="Save as a template"
      description={`Members of ${tenant} can start from it. A template of yours with this name is replaced.`}
      sending={form.sending}
      action="Save"
      onClose={onClose}
    >
      <TextField label="Name of the template" required maxLength={63} {...form.field("name")} />
      <TextField label="What it is for" maxLength={200} {...form.field("summary")} />
    </FormDialog>
  );
}
