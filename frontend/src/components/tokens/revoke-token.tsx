import { useMutation, useQueryClient } from "@tanstack/react-query";

import { revokeToken, tokensQuery } from "@/api/token-queries";
import type { Token } from "@/api/schema";
import { Confirm } from "@/ui/dialog";
import { useSay } from "@/ui/toasts";

export function RevokeToken({ token, onClose }: { token: Token; onClose: () => void }) {
  const queries = useQueryClient();
  const say = useSay();
  const revoke = useMutation({
    mutationFn: () => revokeToken(token.key),
    onSuccess: () => queries.invalidateQueries({ queryKey: tokensQuery.queryKey }),
    onError: (error) => say("failed", error.message),
    onSettled: onClose,
  });
  return (
    <Confirm
      open
      onClose={onClose}
      title={`Revoke ${token.name} of ${token.user}?`}
      description="Whatever uses it is refused from then on."
      action="Revoke"
      busy={revoke.isPending}
      onConfirm={() => revoke.mutate()}
    />
  );
}
