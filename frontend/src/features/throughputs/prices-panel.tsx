import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";

import { ApiError } from "@/api/client";
import { gpuModelsQuery } from "@/api/queries";
import type { GpuModel } from "@/api/schema";
import { changeClusterSettings, setPrice } from "@/api/settings-queries";
import { useCurrency } from "@/components/currency";
import { count } from "@/components/format";
import { SaveButtons, unsaved, useKept, withChange } from "@/components/kept-form";
import { useSession } from "@/components/session";
import { ErrorNotice } from "@/ui/feedback";
import { Field, NumberInput, TextField } from "@/ui/field";
import { FieldRow, Form } from "@/ui/form";
import { Facts, muted, Panel, Stack } from "@/ui/layout";
import { useSay } from "@/ui/toasts";

/** By GPU model; one that was emptied is undefined. */
type Prices = Record<string, number | undefined>;

/** What a GPU of each model costs for an hour, and in which currency; operators say so. */
export function PricesPanel() {
  const me = useSession();
  const currency = useCurrency();
  const models = useQuery(gpuModelsQuery).data ?? [];
  if (models.length === 0) return null;
  const unit = currency ?? "cost units";
  return (
    <Panel title={`GPU prices, in ${unit} per GPU-hour`}>
      <Stack>
        {me.is_operator ? (
          <PricesForm models={models} currency={currency ?? ""} />
        ) : (
          <Facts facts={models.map(({ name, price_per_hour }) => [name, count(price_per_hour)])} />
        )}
        <p className={muted}>
          {!currency && "A cost unit is the unit of your site's prices, the same for all models. "}
          Changed prices apply from now on, to budgets by cost and to price-aware policies.
        </p>
      </Stack>
    </Panel>
  );
}

function PricesForm({ models, currency }: { models: readonly GpuModel[]; currency: string }) {
  const say = useSay();
  const queries = useQueryClient();
  const [changes, keep] = useKept<Prices>("prices", {});
  const [typed, keepTyped] = useKept<string | null>("currency", null);
  const code = typed ?? currency;
  const prices: Prices = Object.fromEntries(models.map(({ name, price_per_hour }) => [name, price_per_hour]));
  const draft: Prices = { ...prices, ...changes };
  const save = useMutation({
    // One after another: those before one that is refused are saved.
    mutationFn: async (wanted: Prices) => {
      if (code !== currency) await changeClusterSettings({ currency: code }, {});
      for (const [model, price] of Object.entries(wanted)) {
        if (price === undefined) continue;
        await setPrice(model, price).catch((error: unknown) => {
          throw new PriceError(model, error);
        });
        keep((now) => unsaved(now, { [model]: price }));
      }
    },
    onSuccess: () => say("done", "Saved the prices and their currency."),
    onSettled: async (_, error) => {
      await queries.invalidateQueries({ queryKey: gpuModelsQuery.queryKey });
      if (!error) keepTyped((now) => (now === code ? null : now));
    },
  });
  const refused = save.error instanceof PriceError ? save.error : null;
  const wrongCode = save.error instanceof ApiError ? save.error.explain("currency") : undefined;
  const discard = () => {
    keep(() => ({}));
    keepTyped(() => null);
    save.reset();
  };
  return (
    <Form onSubmit={() => save.mutate(changes)}>
      {save.error && !refused?.problem && !wrongCode && <ErrorNotice error={save.error} />}
      <FieldRow>
        {models.map(({ name, gpus }) => (
          <Field
            key={name}
            label={name}
            hint={`${gpus} in the cluster`}
            problem={refused?.model === name ? refused.problem : undefined}
          >
            {(attributes) => (
              <NumberInput
                {...attributes}
                required
                min={0}
                step="any"
                value={draft[name]}
                onChange={(price) => keep((now) => withChange(prices, now, { [name]: price }))}
              />
            )}
          </Field>
        ))}
        <TextField
          label="Currency"
          hint="ISO 4217, such as EUR; empty: cost units"
          problem={wrongCode}
          value={code}
          onChange={(event) => keepTyped(() => event.target.value.toUpperCase())}
        />
      </FieldRow>
      <SaveButtons
        isChanged={code !== currency || Object.keys(changes).length > 0}
        busy={save.isPending}
        onDiscard={discard}
      />
    </Form>
  );
}

/** Which model's price was refused. */
class PriceError extends Error {
  readonly problem: string | undefined;

  constructor(
    readonly model: string,
    cause: unknown,
  ) {
    super(cause instanceof Error ? cause.message : String(cause));
    this.problem = cause instanceof ApiError ? cause.explain("price_per_hour") : undefined;
  }
}
