import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";

import { ApiError } from "@/api/client";
import { addWebhook, changeWebhook, rotateSecret } from "@/api/notice-queries";
import type { NewWebhook, Webhook } from "@/api/schema";
import { ShownOnce } from "@/components/shown-once";
import { Button } from "@/ui/button";
import { Dialog, DialogActions } from "@/ui/dialog";
import { ErrorNotice } from "@/ui/feedback";
import { Checkbox, Field, TextInput } from "@/ui/field";
import { FieldGroup, Form } from "@/ui/form";
import { TOPICS } from "@/components/notices/words";
import styles from "@/components/notices/notices.module.css";

type WebhookDraft = Pick<Webhook, "url" | "title" | "topics">;

const EMPTY: WebhookDraft = { url: "", title: "", topics: ["job.failed"] };

interface AddWebhookProps {
  tenant: string | null;
  onClose: () => void;
}

/** Make a webhook, and show its secret. */
export function AddWebhookDialog({ tenant, onClose }: AddWebhookProps) {
  const queries = useQueryClient();
  const add = useMutation({
    mutationFn: (draft: WebhookDraft) => addWebhook({ ...draft, tenant }),
    onSuccess: () => void queries.invalidateQueries({ queryKey: ["webhooks"] }),
  });
  if (add.data) return <Secret made={add.data} onClose={onClose} />;
  return (
    <Dialog open onClose={onClose} title="New webhook" description="Each message is signed by a secret that you get.">
      <WebhookForm
        draft={EMPTY}
        ofCluster={tenant === null}
        action="Create"
        error={add.error}
        busy={add.isPending}
        onSave={add.mutate}
        onClose={onClose}
      />
    </Dialog>
  );
}

interface WebhookDialogProps {
  webhook: Webhook;
  onClose: () => void;
}

export function EditWebhookDialog({ webhook, onClose }: WebhookDialogProps) {
  const queries = useQueryClient();
  const change = useMutation({
    mutationFn: (draft: WebhookDraft) => changeWebhook(webhook.id, draft),
    onSuccess: () => {
      void queries.invalidateQueries({ queryKey: ["webhooks"] });
      onClose();
    },
  });
  return (
    <Dialog open onClose={onClose} title="Edit the webhook">
      <WebhookForm
        draft={webhook}
        ofCluster={!webhook.tenant}
        action="Save"
        error={change.error}
        busy={change.isPending}
        onSave={change.mutate}
        onClose={onClose}
      />
    </Dialog>
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
      description="For a day, messages are signed with the new one and the one of now. Tell the receiver within that time."
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
    <Dialog open onClose={onClose} title={`Secret of ${made.title || "the webhook"}`}>
      <ShownOnce secret={made.secret ?? ""} label="By it the receiver knows that a message is from here." />
      <DialogActions>
        <Button look="primary" onClick={onClose}>
          Done
        </Button>
      </DialogActions>
    </Dialog>
  );
}

interface WebhookFormProps {
  draft: WebhookDraft;
  /** Whether it may be told of nodes. */
  ofCluster: boolean;
  action: string;
  error: Error | null;
  busy: boolean;
  onSave: (draft: WebhookDraft) => void;
  onClose: () => void;
}

function WebhookForm({ draft, ofCluster, action, error, busy, onSave, onClose }: WebhookFormProps) {
  const [url, setUrl] = useState(draft.url);
  const [title, setTitle] = useState(draft.title);
  const [topics, setTopics] = useState<ReadonlySet<Webhook["topics"][number]>>(new Set(draft.topics));
  const refusal = error instanceof ApiError ? error : null;
  const choose = (topic: Webhook["topics"][number], isOn: boolean) => {
    const chosen = new Set(topics);
    if (isOn) chosen.add(topic);
    else chosen.delete(topic);
    setTopics(chosen);
  };
  return (
    <Form onSubmit={() => onSave({ url: url.trim(), title: title.trim(), topics: [...topics] })}>
      {error && !refusal?.problem("url") && <ErrorNotice error={error} />}
      <Field label="URL" hint="A public address: https://host/path" problem={refusal?.explain("url")}>
        {(attributes) => (
          <TextInput
            {...attributes}
            type="url"
            autoFocus
            required
            value={url}
            onChange={(event) => setUrl(event.target.value)}
          />
        )}
      </Field>
      <Field label="Title" hint="What it is for">
        {(attributes) => (
          <TextInput {...attributes} maxLength={120} value={title} onChange={(event) => setTitle(event.target.value)} />
        )}
      </Field>
      <FieldGroup legend="Told of">
        <div className={styles.topics}>
          {TOPICS.filter((each) => ofCluster || !each.ofCluster).map(({ topic, says }) => (
            <Checkbox
              key={topic}
              label={says}
              checked={topics.has(topic)}
              onChange={(event) => choose(topic, event.target.checked)}
            />
          ))}
        </div>
      </FieldGroup>
      <DialogActions>
        <Button onClick={onClose}>Close</Button>
        <Button type="submit" look="primary" busy={busy} disabled={topics.size === 0}>
          {action}
        </Button>
      </DialogActions>
    </Form>
  );
}
