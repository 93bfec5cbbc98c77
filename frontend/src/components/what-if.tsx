/** A what-if question: it is asked, its answer is fetched until there is one, and shown. */

import { useMutation } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";

import { answerOf, api, ApiError, once } from "@/api/client";
import type { StartForecast, WhatIf, WhatIfEffect, WhatIfQuestionRequest } from "@/api/schema";
import { clockAhead, count } from "@/components/format";
import { DataTable } from "@/ui/data-table";
import { muted, oneLine, Stack } from "@/ui/layout";

const PAUSE_MS = 400;
const MOST_LOOKS = 200;

export function useWhatIf() {
  return useMutation({
    mutationFn: async (body: WhatIfQuestionRequest) => {
      let asked = await answerOf(api.POST("/what-if", { params: { header: once() }, body }));
      for (let look = 0; look < MOST_LOOKS && (asked.state === "waiting" || asked.state === "running"); look += 1) {
        await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
        asked = await answerOf(api.GET("/what-if/{question_id}", { params: { path: { question_id: asked.id } } }));
      }
      if (asked.state !== "done") {
        throw new ApiError(0, asked.state, asked.problem || "No answer yet; ask again.", asked.fields);
      }
      return asked;
    },
  });
}

/** Nearer than this, a start is at once. */
const AT_ONCE_MS = 10_000;

/** The jobs before and after, the one asked about first, then those that pay and those that gain. */
export function WhatIfAnswer({ answer }: { answer: WhatIf }) {
  const now = Date.parse(answer.made_at ?? answer.asked_at);
  const groups: [string, WhatIfEffect[], number, number][] = [
    ["Later", answer.later, answer.later_count, answer.others_later],
    ["Sooner", answer.sooner, answer.sooner_count, answer.others_sooner],
  ];
  const rows = [
    ...answer.subjects.map((effect) => ({ effect, word: "" })),
    ...groups.flatMap(([word, effects]) => effects.map((effect) => ({ effect, word }))),
  ];
  return (
    <Stack>
      {rows.length > 0 && (
        <DataTable
          label="Starts before and after"
          rows={rows}
          rowKey={({ effect }) => effect.job ?? "new"}
          columns={[
            { header: "Job", cell: ({ effect, word }) => <JobName effect={effect} word={word} /> },
            {
              header: "Now",
              cell: ({ effect }) => (effect.runs_now ? "runs" : <Start foreseen={effect.before} now={now} />),
            },
            { header: "Then", cell: ({ effect }) => <Start foreseen={effect.after} now={now} /> },
          ]}
        />
      )}
      <p role="status">
        {groups.map(([word, , mine, others]) => sentence(word.toLowerCase(), mine, others)).join(" ")}{" "}
        <span className={muted}>Prediction: {answer.assumption}.</span>
      </p>
    </Stack>
  );
}

function sentence(word: string, mine: number, others: number): string {
  if (mine + others === 0) return `No other job would start ${word}.`;
  const jobs = (number: number) => `${count(number)} ${number === 1 ? "job" : "jobs"}`;
  return `${jobs(mine)}${others > 0 ? ` and ${jobs(others)} of others` : ""} would start ${word}.`;
}

function JobName({ effect, word }: { effect: WhatIfEffect; word: string }) {
  return (
    <>
      {effect.job === null ? (
        effect.name
      ) : (
        <Link to="/jobs/$id" params={{ id: String(effect.job) }}>
          {effect.name} #{effect.job}
        </Link>
      )}{" "}
      {word && <span className={muted}>{word.toLowerCase()}</span>}
    </>
  );
}

function Start({ foreseen, now }: { foreseen: StartForecast | null; now: number }) {
  if (!foreseen) return "–";
  const { starts_at, earliest, latest } = foreseen;
  if (starts_at === null) return <span className={muted}>{foreseen.why_not}</span>;
  if (Date.parse(starts_at) - now < AT_ONCE_MS) return <strong>at once</strong>;
  const [first, last] = [earliest, latest].map((at) => (at ? clockAhead(at, now) : "?"));
  return (
    <span className={oneLine}>
      <strong>{clockAhead(starts_at, now)}</strong>{" "}
      {first !== last && (
        <span className={muted}>
          {first} to {last}
        </span>
      )}
    </span>
  );
}
