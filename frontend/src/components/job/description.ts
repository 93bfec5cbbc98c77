import type { Job } from "@/api/schema";
import { visible } from "@/components/format";

/** What a job is for, as the first of its facts; nothing where its user did not say. */
export function descriptionFacts({ spec }: Pick<Job, "spec">): [string, string][] {
  return spec.description ? [["Description", visible(spec.description)]] : [];
}
