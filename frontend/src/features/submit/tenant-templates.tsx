import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Trash2 } from "lucide-react";
import { useState } from "react";

import { deleteTemplate, readTemplate, templatesQuery } from "@/api/template-queries";
import { writeSpec } from "@/components/spec-text";
import { Button, IconButton } from "@/ui/button";
import { Confirm } from "@/ui/confirm";
import { muted, Row } from "@/ui/layout";
import { onDemand } from "@/ui/on-demand";
import { useSay } from "@/ui/toasts";

const SaveTemplate = onDemand(async () => (await import("@/features/submit/save-template")).SaveTemplate);

interface Props {
  tenant: string;
  /** What is written now; null while it cannot be read. */
  spec: Record<string, unknown> | null;
  onTake: (text: string) => void;
}

/** The templates that a tenant keeps: members start from them, and keep what they wrote as another one. */
export function TenantTemplates({ tenant, spec, onTake }: Props) {
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
      {isSaving && spec && <SaveTemplate tenant={tenant} spec={spec} onClose={() => setSaving(false)} />}
    </Row>
  );
}
