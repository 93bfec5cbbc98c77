/** Forms that are sent: react-hook-form keeps what is typed, a mutation sends it, and a refusal is told at its fields. */

import { useEffect, useRef } from "react";
import { useForm, type DefaultValues, type FieldPath, type FieldPathByValue, type FieldValues } from "react-hook-form";

import { ApiError, explained } from "@/api/client";
import { NEW, type Reading, rebased, useRefusal } from "@/components/edition";
import { isSame } from "@/components/same";

interface Sending<Values> {
  mutate: (values: Values) => void;
  isPending: boolean;
  error: Error | null;
  reset: () => void;
}

interface Options {
  /** The form's name for a field that the server objects to, where it has another there. */
  fieldOf?: (field: string) => string;
  /** What it changes; `initial` is then made from `editing.thing`. */
  editing?: Reading;
}

/**
 * A form that begins with `initial`, named as the server names its fields. `field` and `number` give a `TextField` what
 * it needs, `register` a check box; an emptied number is undefined. `sending` is for `Form` and `FormDialog`. Where
 * `initial` becomes another, fields follow it that were not touched.
 */
export function useSentForm<Values extends FieldValues>(
  initial: Values,
  { mutate, isPending, error, reset: forget }: Sending<Values>,
  { fieldOf = (field) => field, editing = NEW }: Options = {},
) {
  const { register, handleSubmit, control, getValues, setValue, reset } = useForm<Values>({
    defaultValues: initial as DefaultValues<Values>,
  });
  const base = useRef(initial);
  useEffect(() => {
    if (isSame(base.current, initial)) return;
    reset(rebased(base.current, getValues(), initial));
    base.current = initial;
  });
  const { notice, onReload } = useRefusal({ error, reset: forget }, editing);
  const problems = (error instanceof ApiError ? error.fields : []).map((problem) => ({
    name: fieldOf(problem.field),
    text: explained(problem),
  }));
  /** What the server objects to in a field, or in a part of it. */
  const problem = (wanted: FieldPath<Values>) =>
    problems.find(({ name }) => name === wanted || name.startsWith(`${wanted}.`))?.text;
  const isAtFields = problems.length > 0 && problems.every(({ name }) => (name.split(".")[0] ?? "") in initial);
  return {
    register,
    control,
    getValues,
    setValue,
    reset,
    problem,
    /** `onChange` is called when somebody changes it. */
    field: (name: FieldPath<Values>, options: { onChange?: () => void } = {}) => ({
      ...register(name, options),
      problem: problem(name),
    }),
    number: (name: FieldPathByValue<Values, number | undefined>) => ({
      ...register(name, { setValueAs: numberIn }),
      type: "number",
      inputMode: "decimal" as const,
      problem: problem(name),
    }),
    sending: {
      onSubmit: () => void handleSubmit((values) => mutate(values))(),
      busy: isPending || editing.isReading,
      /** What is not told at a field. */
      notice: isAtFields ? null : notice,
      onReload,
    },
  };
}

export type SentForm<Values extends FieldValues> = ReturnType<typeof useSentForm<Values>>;

function numberIn(value: unknown): number | undefined {
  return value === "" || value === undefined ? undefined : Number(value);
}
