import { Toast } from "radix-ui";
import { X } from "lucide-react";
import { createContext, useCallback, useContext, useMemo, useState, type ReactNode } from "react";

import { IconButton } from "@/ui/button";
import styles from "@/ui/toasts.module.css";

interface Message {
  id: number;
  tone: "done" | "failed";
  text: string;
}

type Say = (tone: Message["tone"], text: string) => void;

const SayContext = createContext<Say>(() => undefined);

/** Tells the person what came of something they did. */
export function useSay(): Say {
  return useContext(SayContext);
}

const MOST_AT_ONCE = 4;

export function ToastProvider({ children }: { children: ReactNode }) {
  const [messages, setMessages] = useState<Message[]>([]);
  const say = useCallback<Say>((tone, text) => {
    const id = Date.now() + Math.random();
    setMessages((known) => [...known, { id, tone, text }].slice(-MOST_AT_ONCE));
  }, []);
  const dismiss = (id: number) => setMessages((known) => known.filter((message) => message.id !== id));
  const toasts = useMemo(
    () =>
      messages.map(({ id, tone, text }) => (
        <Toast.Root
          key={id}
          className={styles.toast}
          data-tone={tone}
          duration={tone === "failed" ? 10_000 : 5_000}
          onOpenChange={(open) => !open && dismiss(id)}
        >
          <Toast.Description>{text}</Toast.Description>
          <Toast.Close asChild>
            <IconButton label="Dismiss" icon={<X size={14} />} />
          </Toast.Close>
        </Toast.Root>
      )),
    [messages],
  );
  return (
    <Toast.Provider>
      <SayContext.Provider value={say}>{children}</SayContext.Provider>
      {toasts}
      <Toast.Viewport className={styles.viewport} />
    </Toast.Provider>
  );
}
