import { useMutation } from "@tanstack/react-query";
import { useWatch } from "react-hook-form";

import { answerOf, api } from "@/api/client";
import type { Node } from "@/api/schema";
import { useSentForm } from "@/components/sent-form";
import { live } from "@/live/live";
import { FormDialog } from "@/ui/dialog";
import { SelectField, TextField } from "@/ui/field";

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

const WHY = { label: "Why", hint: "All users see it on the node's page.", maxLength: 300 };

interface Props {
  node: Node;
  onClose: () => void;
}

/** Asks when the node is to be empty, and why. */
export function DrainDialog({ node, onClose }: Props) {
  const drain = useMutation({
    mutationFn: ({ deadline, until, why }: { deadline: string; until: string; why: string }) =>
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
  const { sending, field, control } = useSentForm({ deadline: "0", until: "", why: node.withdrawn?.why ?? "" }, drain, {
    fieldOf: (name) => (name === "deadline_seconds" ? "deadline" : name),
  });
  const deadline = useWatch({ control, name: "deadline" });
  const isNow = deadline === "0";
  return (
    <FormDialog
      title={`Drain ${node.name}`}
      description={
        isNow
          ? "The node accepts no new jobs. Its jobs write a checkpoint and are queued again."
          : "Until then its jobs continue, and only jobs that end in time start. Jobs that still run then are stopped and queued again."
      }
      sending={sending}
      action={isNow ? "Drain now" : "Drain"}
      look="danger"
      close="Keep"
      onClose={onClose}
    >
      <SelectField {...field("deadline")} label="When" options={DEADLINES} />
      {deadline === "at" && <TextField {...field("until")} label="Time" type="datetime-local" required />}
      <TextField {...field("why")} {...WHY} />
    </FormDialog>
  );
}

/** Asks why the node is to accept nothing new. */
export function CordonDialog({ node, onClose }: Props) {
  const cordon = useMutation({
    mutationFn: ({ why }: { why: string }) =>
      answerOf(api.PATCH("/nodes/{name}", { params: { path: { name: node.name } }, body: { cordoned: true, why } })),
    onSuccess: (answer) => {
      adopt(answer);
      onClose();
    },
  });
  const { sending, field } = useSentForm({ why: "" }, cordon);
  return (
    <FormDialog
      title={`Cordon ${node.name}`}
      description="Its jobs continue; no new job starts there."
      sending={sending}
      action="Cordon"
      close="Keep"
      onClose={onClose}
    >
      <TextField {...field("why")} {...WHY} />
    </FormDialog>
  );
}

function adopt(node: Node): void {
  live.apply({ type: "fetched", kind: "node", objects: [node], since: live.current().clock });
}
