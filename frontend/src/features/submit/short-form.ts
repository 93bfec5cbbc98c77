/** The short form of a job of one task, which has no `tasks`: what stands there where. Pure. */

const ONLY_TASK = "tasks.0.";
/** Fields of a task that have a name of their own at the top. */
const AT_TOP: Readonly<Record<string, string>> = { "resources.gpu": "gpus", "resources.gpu_model": "gpu_model" };

/** The field of a problem as the specification writes it: "gpus" for "tasks.0.resources.gpu" in the short form. */
export function writtenField(field: string, spec: Readonly<Record<string, unknown>>): string {
  if ("tasks" in spec || !field.startsWith(ONLY_TASK)) return field;
  const inner = field.slice(ONLY_TASK.length);
  const atTop = AT_TOP[inner];
  return atTop !== undefined && atTop in spec ? atTop : inner;
}
