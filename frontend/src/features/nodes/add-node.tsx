import { useMutation, useQueryClient } from "@tanstack/react-query";

import { answerOf, api, once } from "@/api/client";
import { useSentForm } from "@/components/sent-form";
import { ShownOnceDialog } from "@/components/shown-once";
import { FormDialog } from "@/ui/dialog";
import { TextField } from "@/ui/field";

/** Makes the node known and shows the token with which its agent signs in. */
export function AddNode({ onClose }: { onClose: () => void }) {
  const queries = useQueryClient();
  const add = useMutation({
    mutationFn: ({ name, rack }: { name: string; rack: string }) =>
      answerOf(api.POST("/nodes", { params: { header: once() }, body: rack ? { name, rack } : { name } })),
    onSuccess: () => void queries.invalidateQueries({ queryKey: ["nodes"] }),
  });
  const { sending, field } = useSentForm({ name: "", rack: "" }, add);
  if (add.data?.token) {
    return (
      <ShownOnceDialog
        title={`Node ${add.data.name} is expected`}
        description="Start the node agent on that machine with this token."
        secret={add.data.token}
        label="The node's token."
        onClose={onClose}
      />
    );
  }
  return (
    <FormDialog
      title="Add a node"
      description="Its GPUs appear when its agent reports for the first time."
      sending={sending}
      action="Add the node"
      onClose={onClose}
    >
      <TextField
        {...field("name")}
        label="Name"
        hint="Letters, digits, '-' and '.', such as gpu-17"
        autoFocus
        required
      />
      <TextField
        {...field("rack")}
        label="Rack"
        hint="Nodes of one rack are near to one another"
        placeholder="rack-1"
      />
    </FormDialog>
  );
}
