import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Trash2 } from "lucide-react";
import { useState } from "react";

import { deleteTemplate, readTemplate, setTemplate, templatesQuery } from "@/api/template-queries";
import { useSentForm } from "@/components/sent-form";
import { writeSpec } from "@/components/spec-text";
import { Button, IconButton } from "@/ui/button";
import { Confirm, FormDialog } from "@/ui/dialog";
import { TextField } from "@/ui/field";
import { muted, Row } from "@/ui/layout";
import { useSay } from "@/ui/toasts";

interface Props {
  tenant: string;
  /** What is written now; null while it cannot be read. */
  spec: Record<string, unknown> | null;
  onTake: (text: string) => void;
}

/** The templates that a tenant keeps: members start from them, and keep what they wrote as another one. */
export default function TenantTemplates({ tenant, spec, onTake }: Props) {
  const say = useSay();
  const queries = useQueryClient();
  const kept = useQuery(templatesQuery(tenant)).data ?? [];
  const [isSaving, setSaving] = useState(false);
  const [deleting, setDeleting] = useState<string | null>(null);
  const take = useMutation({
    mutationFn: (name: string) => readTemplate(tenant, name),
    onSuccess: (template) => onTake(writeSpec(template.spec)),
    onError: (error) => say("failed", error.message),
  });
  const remove = useMutation({
    mutationFn: (name: string) => deleteTemplate(tenant, name),
    onError: (error) => say("failed", error.message),
    onSettled: () => queries.invalidateQueries({ queryKey: templatesQuery(tenant).queryKey }),
  });
  return (
    <Row>
      {kept.length > 0 && <span className={muted}>Templates of {tenant}:</span>}
      {kept.map(({ name, summary, may_change }) => (
        <Row key={name}>
          <Button title={summary || undefined} onClick={() => take.mutate(name)} disabled={take.isPending}>
            {name}
          </Button>
          {may_change && (
            <IconButton
              label={`Delete ${name}`}
              icon={<Trash2 size={14} />}
              onClick={() => setDeleting(name)}
              disabled={remove.isPending}
            />
          )}
        </Row>
      ))}
      <Button look="quiet" onClick={() => setSaving(true)} disabled={!spec}>
        Save as a template
      </Button>
      <Confirm
        open={deleting !== null}
        onClose={() => setDeleting(null)}
        title={`Delete ${deleting ?? ""}?`}
        description={`No member of ${tenant} can start from it any more. Jobs keep what they have.`}
        action="Delete"
        onConfirm={() => {
          if (deleting) remove.mutate(deleting);
          setDeleting(null);
        }}
      />
      {isSaving && spec && <SaveDialog tenant={tenant} spec={spec} onClose={() => setSaving(false)} />}
    </Row>
  );
}

interface SaveProps {
  tenant: string;
  spec: Record<string, unknown>;
  onClose: () => void;
}

function SaveDialog({ tenant, spec, onClose }: SaveProps) {
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
