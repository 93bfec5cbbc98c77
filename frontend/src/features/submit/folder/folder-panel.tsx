import { FolderUp } from "lucide-react";
import { useRef, useState } from "react";

import { bytes } from "@/components/format";
import type { Brought, Step } from "@/features/submit/folder/bring-folder";
import styles from "@/features/submit/submit-page.module.css";
import { Button } from "@/ui/button";
import { ErrorNotice } from "@/ui/feedback";

interface FolderPanelProps {
  tenant: string;
  /** The archive that the specification names, if any. */
  archive: string | undefined;
  onArchive: (archive: string | undefined) => void;
}

/** Let the job start in a copy of a folder of this machine, as `allot submit --upload` does. */
export function FolderPanel({ tenant, archive, onArchive }: FolderPanelProps) {
  const [step, setStep] = useState<Step | null>(null);
  const [stored, setStored] = useState<Brought | null>(null);
  const [error, setError] = useState<unknown>(null);
  const input = useRef<HTMLInputElement>(null);
  const underWay = useRef<AbortController>(null);

  const bring = async (list: readonly File[]) => {
    const aborting = new AbortController();
    underWay.current = aborting;
    const { signal } = aborting;
    setError(null);
    try {
      const { bringFolder } = await import("@/features/submit/folder/bring-folder");
      const brought = await bringFolder(tenant, list, setStep, signal);
      setStored(brought);
      onArchive(brought.archive);
    } catch (problem) {
      if (!signal.aborted) setError(problem);
    } finally {
      setStep(null);
    }
  };

  return (
    <section className={styles.folder} aria-label="Code">
      <input
        ref={input}
        type="file"
        // All browsers know it; the types of React do not.
        {...{ webkitdirectory: "" }}
        multiple
        hidden
        aria-label="Folder"
        onChange={({ target }) => {
          const list = [...(target.files ?? [])];
          // So that the same folder can be chosen again.
          target.value = "";
          if (list.length > 0) void bring(list);
        }}
      />
      {step ? (
        <>
          <label>
            {step.what} {step.folder}: {bytes(step.done)} of {bytes(step.total)}{" "}
            <progress value={step.done} max={Math.max(step.total, 1)} />
          </label>
          <Button onClick={() => underWay.current?.abort()}>Cancel</Button>
        </>
      ) : (
        <>
          <Button icon={<FolderUp size={15} />} onClick={() => input.current?.click()}>
            {archive ? "Choose another folder" : "Upload a folder"}
          </Button>
          <span role="status">{said(archive, stored)}</span>
          {archive && (
            <Button look="quiet" onClick={() => onArchive(undefined)}>
              Leave it out
            </Button>
          )}
        </>
      )}
      {error !== null && <ErrorNotice error={error} />}
    </section>
  );
}

function said(archive: string | undefined, stored: Brought | null): string {
  if (!archive)
    return "The job starts in a copy of the folder, without the files that .gitignore and .allotignore exclude.";
  if (stored?.archive !== archive) return `The job starts in the folder ${archive.slice(0, 19)}.`;
  const files = stored.files === 1 ? "1 file" : `${stored.files.toLocaleString("en")} files`;
  return `The job starts in a copy of ${stored.folder}: ${files}, ${bytes(stored.unpacked_bytes)}.`;
}
