import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useWatch } from "react-hook-form";

import { addWebhook, changeWebhook, rotateSecret, webhookEdition } from "@/api/notice-queries";
import type { NewWebhook, Webhook } from "@/api/schema";
import { useEdition } from "@/components/edition";
import { useSentForm, type SentForm } from "@/components/sent-form";
import { ShownOnceDialog } from "@/components/shown-once";
import { Button } from "@/ui/button";
import { Dialog, DialogActions, FormDialog } from "@/ui/dialog";
import { ErrorNotice } from "@/ui/feedback";
import { Checkbox, TextField } from "@/ui/field";
import { FieldGroup } from "@/ui/form";
import { TOPICS } from "@/components/notices/words";
import styles from "@/components/notices/notices.module.css";

type WebhookDraft = Pick<Webhook, "url" | "title" | "topics">;

const EMPTY: WebhookDraft = { url: "", title: "", topics: ["job.failed"] };

function trimmed({ url, title, topics }: WebhookDraft): WebhookDraft {
  return { url: url.trim(), title: title.trim(), topics };
}

interface AddWebhookProps {
  tenant: string | null;
  onClose: () => void;
}

/** Make a webhook, and show its secret. */
export function AddWebhookDialog({ tenant, onClose }: AddWebhookProps) {
  const queries = useQueryClient();
  const add = useMutation({
    mutationFn: (draft: WebhookDraft) => addWebhook({ ...trimmed(draft), tenant }),
    onSuccess: () => void queries.invalidateQueries({ queryKey: ["webhooks"] }),
  });
  const form = useSentForm(EMPTY, add);
  if (add.data) return <Secret made={add.data} onClose={onClose} />;
  return (
    <WebhookForm
      title="New webhook"
      description="Each message is signed with a secret, which you get once."
      form={form}
      ofCluster={tenant === null}
      action="Create"
      onClose={onClose}
    />
  );
}

interface WebhookDialogProps {
  webhook: Webhook;
  onClose: () => void;
}

export function EditWebhookDialog({ webhook, onClose }: WebhookDialogProps) {
  const queries = useQueryClient();
  const editing = useEdition(webhookEdition(webhook.id), webhook);
  const change = useMutation({
    mutationFn: (draft: WebhookDraft) => changeWebhook(webhook.id, trimmed(draft), editing.edition),
    onSuccess: () => {
      void queries.invalidateQueries({ queryKey: ["webhooks"] });
      onClose();
    },
  });
  const { url, title, topics } = editing.thing;
  const form = useSentForm<WebhookDraft>({ url, title, topics }, change, { editing });
  return (
    <WebhookForm title="Edit the webhook" form={form} ofCluster={!webhook.tenant} action="Save" onClose={onClose} />
  );
}

/** Make a new secret, after it was said what that means. */
export function RotateDialog({ webhook, onClose }: WebhookDialogProps) {
  const queries = useQueryClient();
  const rotate = useMutation({
    mutationFn: () => rotateSecret(webhook.id),
    onSuccess: () => void queries.invalidateQueries({ queryKey: ["webhooks"] }),
  });
  if (rotate.data) return <Secret made={rotate.data} onClose={onClose} />;
  return (
    <Dialog
      open
      onClose={onClose}
      title="Make a new secret?"
      description="For one day, messages are signed with both secrets. Update the receiver within that time."
    >
      {rotate.error && <ErrorNotice error={rotate.error} />}
      <DialogActions>
        <Button onClick={onClose}>Close</Button>
        <Button look="primary" busy={rotate.isPending} onClick={() => rotate.mutate()}>
          New secret
        </Button>
      </DialogActions>
    </Dialog>
  );
}

function Secret({ made, onClose }: { made: NewWebhook; onClose: () => void }) {
  return (
    <ShownOnceDialog
      title={`Secret of ${made.title || "the webhook"}`}
      secret={made.secret ?? ""}
      label="The receiver uses it to verify that a message comes from this platform."
      onClose={onClose}
    />
  );
}

interface WebhookFormProps {
  title: string;
  description?: string;
  form: SentForm<WebhookDraft>;
  /** Whether it may be told of nodes. */
  ofCluster: boolean;
  action: string;
  onClose: () => void;
}

function WebhookForm({ form, ofCluster, ...dialog }: WebhookFormProps) {
  const { sending, field, register, problem, control } = form;
  const topics = useWatch({ control, name: "topics" });
  return (
    <FormDialog {...dialog} sending={sending} disabled={topics.length === 0}>
      <TextField
        {...field("url")}
        label="URL"
        hint="A public address: https://host/path"
        type="url"
        autoFocus
        required
      />
      <TextField {...field("title")} label="Title" hint="Purpose of the webhook" maxLength={120} />
      <FieldGroup legend="Topics" problem={problem("topics")}>
        <div className={styles.topics}>
          {TOPICS.filter((each) => ofCluster || !each.ofCluster).map(({ topic, says }) => (
            <Checkbox key={topic} {...register("topics")} value={topic} label={says} />
          ))}
        </div>
      </FieldGroup>
    </FormDialog>
  );
}
