import { useMutation, useQuery } from "@tanstack/react-query";
import { useState, type ReactNode } from "react";

import { ApiError, setCsrfToken } from "@/api/client";
import { acceptInvitation, joinByInvitation, offerQuery } from "@/api/access-queries";
import type { InvitationOffer, Me } from "@/api/schema";
import { SignInPage } from "@/features/session/sign-in-page";
import { Button } from "@/ui/button";
import { ErrorNotice, SkeletonLines } from "@/ui/feedback";
import { TextField } from "@/ui/field";
import { Form } from "@/ui/form";
import styles from "@/features/session/sign-in-page.module.css";

/** Where the link of an invitation leads, signed in or not. What stands behind the # never leaves the page by itself. */
export function InvitationPage({ me }: { me: Me | null }) {
  const [secret] = useState(() => window.location.hash.slice(1));
  const [hasAccount, setHasAccount] = useState(false);
  const query = useQuery(offerQuery(secret));
  const offer = query.data;
  if (offer && !me && hasAccount) return <SignInPage />;
  return (
    <main className={styles.page}>
      {query.isPending && <SkeletonLines />}
      {query.isError && (
        <div className={styles.form}>
          <ErrorNotice error={query.error} />
          <a href="/">To Allotment</a>
        </div>
      )}
      {offer && me && <Accept offer={offer} secret={secret} me={me} />}
      {offer && !me && <Join offer={offer} secret={secret} onHasAccount={() => setHasAccount(true)} />}
    </main>
  );
}

function Offer({ offer }: { offer: InvitationOffer }) {
  return (
    <div className={styles.brand}>
      <img src={`${import.meta.env.BASE_URL}mark.svg`} alt="" width={36} height={36} />
      <div>
        <h1>Join {offer.title || offer.tenant}</h1>
        <p>
          {offer.invited_by} invites you to tenant {offer.tenant} of Allotment, as {offer.role}.
        </p>
      </div>
    </div>
  );
}

/** The rest of the page knows a member only once it is loaded anew. */
function enter(tenant: string) {
  window.location.assign(`/tenants/${tenant}`);
}

function Accept({ offer, secret, me }: { offer: InvitationOffer; secret: string; me: Me }) {
  const accept = useMutation({
    mutationFn: () => {
      setCsrfToken(me.csrf_token);
      return acceptInvitation(secret);
    },
    onSuccess: ({ name }) => enter(name),
  });
  return (
    <Form className={styles.form} onSubmit={() => accept.mutate()}>
      <Offer offer={offer} />
      {accept.isError && <ErrorNotice error={accept.error} />}
      <Button type="submit" look="primary" busy={accept.isPending}>
        Accept as {me.user.username}
      </Button>
      <a href="/">Not now</a>
    </Form>
  );
}

interface JoinProps {
  offer: InvitationOffer;
  secret: string;
  onHasAccount: () => void;
}

function Join({ offer, secret, onHasAccount }: JoinProps): ReactNode {
  const [username, setUsername] = useState("");
  const [password, setPassword] = useState("");
  const join = useMutation({
    mutationFn: () => joinByInvitation(secret, username.trim(), password),
    onSuccess: () => enter(offer.tenant),
  });
  const refusal = join.error instanceof ApiError ? join.error : null;
  return (
    <Form className={styles.form} onSubmit={() => join.mutate()}>
      <Offer offer={offer} />
      {refusal?.fields.length === 0 && <ErrorNotice error={refusal} />}
      <TextField
        label="User name"
        hint="A new password for your account"
        problem={refusal?.explain("username")}
        autoComplete="username"
        autoFocus
        required
        value={username}
        onChange={(event) => setUsername(event.target.value)}
      />
      <TextField
        label="Password"
        hint="At least 10 characters"
        problem={refusal?.problem("password")}
        type="password"
        autoComplete="new-password"
        required
        value={password}
        onChange={(event) => setPassword(event.target.value)}
      />
      <Button type="submit" look="primary" busy={join.isPending}>
        Make an account and join
      </Button>
      <Button onClick={onHasAccount}>I have an account</Button>
    </Form>
  );
}
