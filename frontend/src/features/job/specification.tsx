import type { Job } from "@/api/schema";
import { visible } from "@/components/format";
import { writeSpec } from "@/components/spec-text";
import styles from "@/features/job/job-page.module.css";
import { CopyButton } from "@/ui/feedback";
import { Panel } from "@/ui/layout";

/** What was submitted, as YAML that can be submitted again. */
export function Specification({ job }: { job: Job }) {
  const text = writeSpec(job.spec);
  return (
    <Panel title="Specification" actions={<CopyButton text={text} label="Copy the specification" />}>
      <pre className={styles.spec} tabIndex={0}>
        {visible(text)}
      </pre>
    </Panel>
  );
}
