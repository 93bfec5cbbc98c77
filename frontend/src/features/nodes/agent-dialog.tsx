import { useState } from "react";

import type { AgentSetUp } from "@/api/schema";
import styles from "@/features/nodes/agent-dialog.module.css";
import { Segments } from "@/ui/choice";
import { ResultDialog } from "@/ui/dialog";
import { CopyButton, Notice } from "@/ui/feedback";
import { Stack } from "@/ui/layout";

type Kind = "real" | "simulated";

interface AgentDialogProps {
  title: string;
  setUp: AgentSetUp;
  onClose: () => void;
}

/** What to copy to a machine so that it becomes the node. The server does not tell the token again. */
export function AgentDialog({ title, setUp, onClose }: AgentDialogProps) {
  const [kind, setKind] = useState<Kind>("real");
  const file = JSON.stringify(setUp[kind], null, 2);
  return (
    <ResultDialog
      title={title}
      description="The file holds the node's token, which is shown only once: copy it before you close this dialog."
      onClose={onClose}
    >
      <Stack>
        <Segments<Kind>
          label="GPUs of the node"
          value={kind}
          onChange={setKind}
          options={[
            { value: "real", label: "NVIDIA GPUs" },
            { value: "simulated", label: "Simulated GPUs" },
          ]}
        />
        <Copied title={`1. Save as ${setUp.file}`} text={file} label="Copy the file" />
        <Copied title="2. Run in the same folder" text={setUp.command} label="Copy the command" />
        <p className={styles.note}>{NOTES[kind]}</p>
        {isInTheClear(setUp.real.server_url) && (
          <Notice>
            This server has no TLS. From another machine the agent connects only with --insecure, and others on the way
            can read its token.
          </Notice>
        )}
      </Stack>
    </ResultDialog>
  );
}

const NOTES: Record<Kind, string> = {
  real:
    "Set checkpoint_folder to a folder that all nodes share, and address to one at which the other nodes reach " +
    "this machine. The agent package (pip install allotment-agent) must be installed, best as root with bubblewrap.",
  simulated:
    "Jobs run on the machine's CPUs and see no GPU. Change gpu_model and gpus to try other hardware. The agent " +
    "package (pip install allotment-agent) must be installed.",
};

function isInTheClear(url: unknown): boolean {
  if (typeof url !== "string") return false;
  const { protocol, hostname } = new URL(url);
  return protocol === "http:" && !["localhost", "127.0.0.1", "[::1]"].includes(hostname);
}

function Copied({ title, text, label }: { title: string; text: string; label: string }) {
  return (
    <section aria-label={title}>
      <div className={styles.head}>
        <h3>{title}</h3>
        <CopyButton text={text} label={label} />
      </div>
      <pre className={styles.text} tabIndex={0}>
        {text}
      </pre>
    </section>
  );
}
