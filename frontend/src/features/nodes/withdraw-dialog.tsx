import { useMutation } from "@tanstack/react-query";
import { useState } from "react";

import { answerOf, api, ApiError } from "@/api/client";
import type { Node } from "@/api/schema";
import { live } from "@/live/live";
import { Button } from "@/ui/button";
import { Dialog, DialogActions } from "@/ui/dialog";
import { ErrorNotice } from "@/ui/feedback";
import { Field, Select, TextInput } from "@/ui/field";
import { Form } from "@/ui/form";

const DEADLINES = [
  { value: "0", label: "Now" },
  { value: "600", label: "In 10 minutes" },
  { value: "1800", label: "In 30 minutes" },
  { value: "3600", label: "In 1 hour" },
  { value: "7200", label: "In 2 hours" },
  { value: "14400", label: "In 4 hours" },
  { value: "28800", label: "In 8 hours" },
  { value: "86400", label: "In 1 day" },
  { value: "259200", label: "In 3 days" },
  { value: "at", label: "At a time" },
];

interface Props {
  node: Node;
  onClose: () => void;
}

/** Asks when the node is to be empty, and why. */
export function DrainDialog({ node, onClose }: Props) {
  const [deadline, setDeadline] = useState("0");
  const [until, setUntil] = useState("");
  const [why, setWhy] = useState(node.withdrawn?.why ?? "");
  const drain = useMutation({
    mutationFn: () =>
      answerOf(
        api.POST("/nodes/{name}/drain", {
          params: { path: { name: node.name } },
          body:
            deadline === "at" ? { until: new Date(until).toISOString(), why } : { deadline_seconds: +deadline, why },
        }),
      ),
    onSuccess: (answer) => {
      adopt(answer);
      onClose();
    },
  });
  const isNow = deadline === "0";
  return (
    <Dialog
      open
      onClose={onClose}
      title={`Drain ${node.name}`}
      description={
        isNow
          ? "It accepts nothing new, and the jobs on it are asked to write a checkpoint and move elsewhere."
          : "Until then its jobs go on, and only what will have ended is started. What is left is moved elsewhere."
      }
    >
      <WithdrawForm
        why={why}
        onWhy={setWhy}
        error={drain.error}
        onSubmit={() => drain.mutate()}
        actions={
          <>
            <Button onClick={onClose}>Keep</Button>
            <Button type="submit" look="danger" busy={drain.isPending}>
              {isNow ? "Drain now" : "Drain"}
            </Button>
          </>
        }
      >
        <Field label="When">
          {(attributes) => (
            <Select
              {...attributes}
              options={DEADLINES}
              value={deadline}
              onChange={(event) => setDeadline(event.target.value)}
            />
          )}
        </Field>
        {deadline === "at" && (
          <Field label="Time" problem={drain.error instanceof ApiError ? drain.error.problem("until") : undefined}>
            {(attributes) => (
              <TextInput
                {...attributes}
                type="datetime-local"
                required
                value={until}
                onChange={(event) => setUntil(event.target.value)}
              />
            )}
          </Field>
        )}
      </WithdrawForm>
    </Dialog>
  );
}

/** Asks why the node is to accept nothing new. */
export function CordonDialog({ node, onClose }: Props) {
  const [why, setWhy] = useState("");
  const cordon = useMutation({
    mutationFn: () =>
      answerOf(api.PATCH("/nodes/{name}", { params: { path: { name: node.name } }, body: { cordoned: true, why } })),
    onSuccess: (answer) => {
      adopt(answer);
      onClose();
    },
  });
  return (
    <Dialog
      open
      onClose={onClose}
      title={`Cordon ${node.name}`}
      description="Its jobs go on; nothing new starts there."
    >
      <WithdrawForm
        why={why}
        onWhy={setWhy}
        error={cordon.error}
        onSubmit={() => cordon.mutate()}
        actions={
          <>
            <Button onClick={onClose}>Keep</Button>
            <Button type="submit" look="primary" busy={cordon.isPending}>
              Cordon
            </Button>
          </>
        }
      />
    </Dialog>
  );
}

interface FormProps {
  why: string;
  onWhy: (why: string) => void;
  error: Error | null;
  onSubmit: () => void;
  actions: React.ReactNode;
  children?: React.ReactNode;
}

function WithdrawForm({ why, onWhy, error, onSubmit, actions, children }: FormProps) {
  return (
    <Form onSubmit={onSubmit}>
      {error && <ErrorNotice error={error} />}
      {children}
      <Field label="Why" hint="Everybody sees it on the node's page.">
        {(attributes) => (
          <TextInput {...attributes} maxLength={300} value={why} onChange={(event) => onWhy(event.target.value)} />
        )}
      </Field>
      <DialogActions>{actions}</DialogActions>
    </Form>
  );
}

function adopt(node: Node): void {
  live.apply({ type: "fetched", kind: "node", objects: [node], since: live.current().clock });
}
