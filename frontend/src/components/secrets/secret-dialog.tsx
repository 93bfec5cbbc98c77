import { useMutation, useQueryClient } from "@tanstack/react-query";

import { secretsQuery, setSecret, type SecretOwner } from "@/api/secret-queries";
import { useSentForm } from "@/components/sent-form";
import { FormDialog } from "@/ui/dialog";
import { Field, TextArea, TextField } from "@/ui/field";

export function SetSecret({ owner, onClose }: { owner: SecretOwner; onClose: () => void }) {
  const queries = useQueryClient();
  const set = useMutation({
    mutationFn: ({ name, value }: { name: string; value: string }) => setSecret(owner, name, value),
    onSuccess: async () => {
      await queries.invalidateQueries({ queryKey: secretsQuery(owner).queryKey });
      onClose();
    },
  });
  const { sending, field, register, problem } = useSentForm({ name: "", value: "" }, set);
  return (
    <FormDialog
      title="Set a secret"
      description="This replaces the secret of the same name."
      sending={sending}
      action="Set"
      onClose={onClose}
    >
      <TextField {...field("name")} label="Name" hint="Such as HF_TOKEN" autoFocus required />
      <Field label="Value" hint="At most 32 KiB; it is never shown again" problem={problem("value")}>
        {(attributes) => <TextArea {...register("value")} {...attributes} autoComplete="off" required rows={4} />}
      </Field>
    </FormDialog>
  );
}
