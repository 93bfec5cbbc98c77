import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";

import { answerOf, api, ApiError, once } from "@/api/client";
import { ShownOnce } from "@/components/shown-once";
import { Button } from "@/ui/button";
import { Dialog, DialogActions } from "@/ui/dialog";
import { ErrorNotice } from "@/ui/feedback";
import { Field, TextInput } from "@/ui/field";
import { Form } from "@/ui/form";

/** Makes the node known and shows the token with which its agent signs in. */
export function AddNode({ onClose }: { onClose: () => void }) {
  const queries = useQueryClient();
  const [name, setName] = useState("");
  const [rack, setRack] = useState("");
  const add = useMutation({
    mutationFn: () =>
      answerOf(api.POST("/nodes", { params: { header: once() }, body: rack ? { name, rack } : { name } })),
    onSuccess: () => void queries.invalidateQueries({ queryKey: ["nodes"] }),
  });
  const refusal = add.error instanceof ApiError ? add.error : null;
  if (add.data?.token) {
    return (
      <Dialog
        open
        onClose={onClose}
        title={`Node ${add.data.name} is expected`}
        description="Start the node agent on that machine with this token."
      >
        <ShownOnce secret={add.data.token} label="The node's token." />
        <DialogActions>
          <Button look="primary" onClick={onClose}>
            Done
          </Button>
        </DialogActions>
      </Dialog>
    );
  }
  return (
    <Dialog
      open
      onClose={onClose}
      title="Add a node"
      description="Its GPUs appear when its agent reports for the first time."
    >
      <Form onSubmit={() => add.mutate()}>
        {refusal?.fields.length === 0 && <ErrorNotice error={refusal} />}
        <Field label="Name" hint="Letters, digits, '-' and '.', such as gpu-17" problem={refusal?.problem("name")}>
          {(attributes) => (
            <TextInput
              {...attributes}
              autoFocus
              required
              value={name}
              onChange={(event) => setName(event.target.value)}
            />
          )}
        </Field>
        <Field label="Rack" hint="Nodes of one rack are near to one another" problem={refusal?.problem("rack")}>
          {(attributes) => (
            <TextInput
              {...attributes}
              placeholder="rack-1"
              value={rack}
              onChange={(event) => setRack(event.target.value)}
            />
          )}
        </Field>
        <DialogActions>
          <Button onClick={onClose}>Close</Button>
          <Button type="submit" look="primary" busy={add.isPending}>
            Add the node
          </Button>
        </DialogActions>
      </Form>
    </Dialog>
  );
}
