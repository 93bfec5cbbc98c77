import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";

import { answerOf, api, setCsrfToken } from "@/api/client";
import { meQuery } from "@/api/queries";
import { Button } from "@/ui/button";
import { ErrorNotice } from "@/ui/feedback";
import { TextField } from "@/ui/field";
import { Form } from "@/ui/form";
import styles from "@/features/session/sign-in-page.module.css";

/** Shown in place of whatever page was asked for, which appears after signing in. */
export function SignInPage() {
  const [username, setUsername] = useState("");
  const [password, setPassword] = useState("");
  const queries = useQueryClient();
  const signIn = useMutation({
    mutationFn: () => answerOf(api.POST("/session", { body: { username, password } })),
    onSuccess: (me) => {
      setCsrfToken(me.csrf_token);
      queries.setQueryData(meQuery.queryKey, me);
    },
  });
  return (
    <main className={styles.page}>
      <Beds />
      <Form className={styles.form} onSubmit={() => signIn.mutate()}>
        <div className={styles.brand}>
          <img src={`${import.meta.env.BASE_URL}mark.svg`} alt="" width={36} height={36} />
          <div>
            <h1>Allotment</h1>
            <p>One GPU cluster, shared out fairly.</p>
          </div>
        </div>
        {signIn.isError && <ErrorNotice error={signIn.error} />}
        <TextField
          label="User name"
          autoComplete="username"
          autoFocus
          required
          value={username}
          onChange={(event) => setUsername(event.target.value)}
        />
        <TextField
          label="Password"
          type="password"
          autoComplete="current-password"
          required
          value={password}
          onChange={(event) => setPassword(event.target.value)}
        />
        <Button type="submit" look="primary" busy={signIn.isPending}>
          Sign in
        </Button>
      </Form>
    </main>
  );
}

/** The garden seen from above: racks as beds, nodes as plots. Decoration only. */
function Beds() {
  const plots = Array.from({ length: 60 }, (_, index) => ({
    x: index % 12,
    y: Math.floor(index / 12),
    crop: (index * 7 + Math.floor(index / 12) * 3) % 11,
  }));
  return (
    <svg className={styles.beds} viewBox="0 0 624 264" preserveAspectRatio="xMidYMid slice" aria-hidden>
      {plots.map(({ x, y, crop }) => (
        <rect
          key={`${x}.${y}`}
          x={x * 50 + Math.floor(x / 4) * 12 + 4}
          y={y * 50 + 4}
          width="44"
          height="44"
          rx="4"
          className={crop < 5 ? styles.planted : undefined}
          style={crop < 5 ? { fill: `var(--crop-${crop + 1})` } : undefined}
        />
      ))}
    </svg>
  );
}
