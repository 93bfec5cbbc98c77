import { type ComponentType, lazy, type ReactNode, Suspense, useEffect } from "react";

import { useSay } from "@/ui/toasts";

/**
 * A component whose code is fetched when it is first shown, such as a dialog that few visitors open. The fallback
 * stands in its place until then. Not for what must be seen, such as a secret that is shown once: the code may be gone after an upgrade of the server.
 */
export function onDemand<Props extends object>(
  load: () => Promise<ComponentType<Props>>,
  fallback: ReactNode = null,
): ComponentType<Props> {
  const Loaded = lazy(async () => ({ default: await load().catch(() => Missing) }));
  return function OnDemand(props: Props) {
    return (
      <Suspense fallback={fallback}>
        <Loaded {...props} />
      </Suspense>
    );
  };
}

/** Stands for what cannot be fetched, so that the page and what was typed into it stay. */
function Missing({ onClose }: { onClose?: () => void }) {
  const say = useSay();
  useEffect(() => {
    say("failed", "This part of the page cannot be loaded: reload the page.");
    onClose?.();
  }, [say, onClose]);
  return null;
}
