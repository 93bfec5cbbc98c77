import { useQuery } from "@tanstack/react-query";
import { Trash2 } from "lucide-react";
import { useState } from "react";

import { gpuModelsQuery } from "@/api/queries";
import type { GpuModel } from "@/api/schema";
import { bytes } from "@/components/format";
import { asNumber, asObject, asText, type Path } from "@/components/yaml/document";
import styles from "@/features/submit/submit-page.module.css";
import { Button, IconButton } from "@/ui/button";
import { Field, NumberInput, TextArea, TextInput } from "@/ui/field";

interface TaskCardProps {
  task: Record<string, unknown>;
  index: number;
  problemOf: (field: string) => string | undefined;
  onEdit: (path: Path, value: unknown) => void;
  onRemove: (() => void) | undefined;
}

/** One role of the gang: how many replicas, what each needs, what it runs. */
export function TaskCard({ task, index, problemOf, onEdit, onRemove }: TaskCardProps) {
  const resources = asObject(task.resources);
  const edit = (path: Path, value: unknown) => onEdit(["tasks", index, ...path], value);
  const problem = (field: string) => problemOf(`tasks.${index}.${field}`);
  return (
    <fieldset className={styles.task}>
      <legend>Task {index + 1}</legend>
      {onRemove && (
        <IconButton
          className={styles.remove}
          label={`Remove task ${index + 1}`}
          icon={<Trash2 size={15} />}
          onClick={onRemove}
        />
      )}
      <div className={styles.triple}>
        <Field label="Task name" problem={problem("name")}>
          {(attributes) => (
            <TextInput
              {...attributes}
              value={asText(task.name)}
              placeholder="main"
              onChange={(event) => edit(["name"], event.target.value || undefined)}
            />
          )}
        </Field>
        <Field label="Replicas" problem={problem("replicas")}>
          {(attributes) => (
            <NumberInput
              {...attributes}
              min={1}
              max={256}
              placeholder="1"
              value={asNumber(task.replicas)}
              onChange={(value) => edit(["replicas"], value)}
            />
          )}
        </Field>
        <Field
          label="GPUs per replica"
          hint={<PartHint gpu={asNumber(resources.gpu)} gpuModel={resources.gpu_model} />}
          problem={problem("resources.gpu")}
        >
          {(attributes) => (
            <NumberInput
              {...attributes}
              min={0}
              step="any"
              max={16}
              title="Whole GPUs, a part of one GPU such as 0.3, or 0 with CPUs or memory"
              value={asNumber(resources.gpu)}
              onChange={(value) => edit(["resources", "gpu"], value)}
            />
          )}
        </Field>
      </div>
      <ModelChoice
        value={resources.gpu_model}
        problem={problem("resources.gpu_model")}
        onChange={(value) => edit(["resources", "gpu_model"], value)}
      />
      <div className={styles.triple}>
        <Field label="CPUs per replica" problem={problem("resources.cpu")}>
          {(attributes) => (
            <TextInput
              {...attributes}
              placeholder="0, or auto"
              value={asText(resources.cpu)}
              onChange={(event) => edit(["resources", "cpu"], amountOf(event.target.value))}
            />
          )}
        </Field>
        <Field label="Memory per replica" problem={problem("resources.memory")}>
          {(attributes) => (
            <TextInput
              {...attributes}
              placeholder="4GiB, or auto"
              value={asText(resources.memory)}
              onChange={(event) => edit(["resources", "memory"], event.target.value || undefined)}
            />
          )}
        </Field>
      </div>
      <Field
        label="Command"
        hint="The shell runs it in each replica"
        problem={problem("command") ?? problem("command.0")}
      >
        {(attributes) => (
          <TextArea
            {...attributes}
            rows={3}
            value={commandText(task.command)}
            onChange={(event) => edit(["command"], event.target.value || undefined)}
          />
        )}
      </Field>
      <Environment env={task.env} problem={problem("env")} onChange={(env) => edit(["env"], env)} />
    </fieldset>
  );
}

/** How a part of a GPU would be held, where the task asks for one. */
function PartHint({ gpu, gpuModel }: { gpu: number | undefined; gpuModel: unknown }) {
  const models = useQuery(gpuModelsQuery);
  if (gpu === undefined || gpu <= 0 || gpu >= 1 || !models.data) return null;
  const chosen = chosenModels(gpuModel);
  return partHint(models.data.filter(({ name }) => chosen.length === 0 || chosen.includes(name)));
}

const HELD: readonly [keyof GpuModel["part_enforcement"], string][] = [
  ["enforced", "enforced"],
  ["cooperative", "cooperative"],
  ["placement_only", "placement only"],
];

/** "Parts: enforced", or on how many GPUs they are held how; nothing where no node has said. */
export function partHint(models: readonly Pick<GpuModel, "part_enforcement">[]): string | null {
  const counts = HELD.map(([key, word]) => {
    return { word, gpus: models.reduce((sum, { part_enforcement: held }) => sum + held[key], 0) };
  }).filter(({ gpus }) => gpus > 0);
  if (counts.length === 0) return null;
  if (counts.length === 1) return `Part: ${counts[0]?.word}`;
  return `Part: ${counts.map(({ word, gpus }) => `${word} on ${gpus} GPUs`).join(", ")}`;
}

function chosenModels(value: unknown): string[] {
  return Array.isArray(value) ? value.map(String) : typeof value === "string" && value !== "any" ? [value] : [];
}

interface ModelChoiceProps {
  value: unknown;
  problem: string | undefined;
  onChange: (value: string | string[]) => void;
}

/** Any model, or some in order of preference: the order in which they are pressed. */
function ModelChoice({ value, problem, onChange }: ModelChoiceProps) {
  const models = useQuery(gpuModelsQuery);
  const chosen = chosenModels(value);
  const names = models.data?.map(({ name }) => name) ?? [];
  const toggle = (name: string) => {
    const next = chosen.includes(name) ? chosen.filter((each) => each !== name) : [...chosen, name];
    onChange(next.length === 0 ? "any" : next.length === 1 ? (next[0] ?? "any") : next);
  };
  return (
    <Field label="GPU model" hint="Several in order of preference; the whole gang runs on one model" problem={problem}>
      {(attributes) => (
        <div className={styles.models} role="group" aria-label="GPU model" {...attributes}>
          <Button aria-pressed={chosen.length === 0} onClick={() => onChange("any")}>
            Any
          </Button>
          {[...names, ...chosen.filter((name) => !names.includes(name))].map((name) => {
            const facts = models.data?.find((model) => model.name === name);
            return (
              <Button key={name} aria-pressed={chosen.includes(name)} onClick={() => toggle(name)}>
                {chosen.length > 1 && chosen.includes(name) && <b>{chosen.indexOf(name) + 1}</b>}
                {name}
                {facts && (
                  <small>
                    {bytes(facts.memory_bytes)}, {facts.gpus_free} of {facts.gpus} free
                  </small>
                )}
              </Button>
            );
          })}
        </div>
      )}
    </Field>
  );
}

interface EnvironmentProps {
  env: unknown;
  problem: string | undefined;
  onChange: (env: Record<string, string> | undefined) => void;
}

/** While it is being typed the text is the person's; the YAML takes the lines that are complete. */
function Environment({ env, problem, onChange }: EnvironmentProps) {
  const [typed, setTyped] = useState<string | null>(null);
  return (
    <Field label="Environment" hint="NAME=value, one on each line" problem={problem}>
      {(attributes) => (
        <TextArea
          {...attributes}
          rows={2}
          value={typed ?? environmentText(env)}
          onBlur={() => setTyped(null)}
          onChange={(event) => {
            setTyped(event.target.value);
            onChange(readEnvironment(event.target.value));
          }}
        />
      )}
    </Field>
  );
}

/** The line that a shell would run; what is already a line for the shell is shown as it is. */
export function commandText(command: unknown): string {
  if (typeof command === "string") return command;
  if (!Array.isArray(command)) return "";
  const words = command.map(String);
  if (words.length === 3 && words[0] === "sh" && words[1] === "-c") return words[2] ?? "";
  return words.map(quoted).join(" ");
}

function quoted(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;
}

/** `NAME=value` lines of an environment. */
export function environmentText(env: unknown): string {
  if (env === null || typeof env !== "object") return "";
  return Object.entries(env)
    .map(([name, value]) => `${name}=${String(value)}`)
    .join("\n");
}

export function readEnvironment(text: string): Record<string, string> | undefined {
  const pairs = text.split("\n").flatMap((line) => {
    const at = line.indexOf("=");
    const name = (at < 0 ? line : line.slice(0, at)).trim();
    return name ? [[name, at < 0 ? "" : line.slice(at + 1)] as const] : [];
  });
  return pairs.length > 0 ? Object.fromEntries(pairs) : undefined;
}

/** A number where it is written as one, else what is written, such as auto. */
function amountOf(text: string): number | string | undefined {
  if (text === "") return undefined;
  return String(Number(text)) === text ? Number(text) : text;
}
