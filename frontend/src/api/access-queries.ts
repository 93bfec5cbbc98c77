/** What the pages read and change about who gets in: users, API tokens, and invitations into tenants. */

import { infiniteQueryOptions, keepPreviousData, queryOptions } from "@tanstack/react-query";

import { answerOf, api, cursorOf, everyPage, once } from "@/api/client";
import type { InvitationInputRequest, Leaving, TokenInputRequest } from "@/api/schema";

/** One's own. */
export const tokensQuery = queryOptions({
  queryKey: ["tokens"],
  queryFn: ({ signal }) => everyPage((query) => answerOf(api.GET("/tokens", { params: { query }, signal }))),
});

/** Everybody's, or one user's; for operators. */
export const everybodysTokensQuery = (user: string) =>
  infiniteQueryOptions({
    queryKey: ["tokens", "everybody", user],
    queryFn: ({ signal, pageParam }) =>
      answerOf(api.GET("/tokens", { params: { query: { everybody: true, user, cursor: pageParam } }, signal })),
    initialPageParam: "",
    getNextPageParam: (page) => cursorOf(page.next),
    placeholderData: keepPreviousData,
  });

export const tokenTermsQuery = queryOptions({
  queryKey: ["tokens", "terms"],
  queryFn: ({ signal }) => answerOf(api.GET("/tokens/terms", { signal })),
});

/** `expires_in_days` null: it never expires. */
export const createToken = (body: TokenInputRequest) =>
  answerOf(api.POST("/tokens", { params: { header: once() }, body }));

export const rotateToken = (key: string, overlapSeconds: number) =>
  answerOf(
    api.POST("/tokens/{key}/rotate", {
      params: { path: { key }, header: once() },
      body: { overlap_seconds: overlapSeconds },
    }),
  );

export const revokeToken = (key: string) => answerOf(api.DELETE("/tokens/{key}", { params: { path: { key } } }));

export const invitationsQuery = (tenant: string) =>
  queryOptions({
    queryKey: ["tenants", tenant, "invitations"],
    queryFn: ({ signal }) =>
      everyPage((query) =>
        answerOf(api.GET("/tenants/{name}/invitations", { params: { path: { name: tenant }, query }, signal })),
      ),
  });

export const invite = (tenant: string, body: InvitationInputRequest) =>
  answerOf(api.POST("/tenants/{name}/invitations", { params: { path: { name: tenant }, header: once() }, body }));

export const revokeInvitation = (tenant: string, key: string) =>
  answerOf(api.DELETE("/tenants/{name}/invitations/{key}", { params: { path: { name: tenant, key } } }));

/** What a link offers; `secret` is what stands behind its #. */
export const offerQuery = (secret: string) =>
  queryOptions({
    queryKey: ["invitation", secret],
    queryFn: ({ signal }) => answerOf(api.POST("/invitations/look", { body: { invitation: secret }, signal })),
    staleTime: Infinity,
    retry: false,
  });

export const acceptInvitation = (secret: string) =>
  answerOf(api.POST("/invitations/accept", { body: { invitation: secret } }));

export const joinByInvitation = (secret: string, username: string, password: string) =>
  answerOf(api.POST("/invitations/join", { body: { invitation: secret, username, password } }));

export interface UserFilters {
  q?: string | undefined;
  tenant?: string | undefined;
  state?: string | undefined;
}

/** The newest first; for operators. */
export const usersQuery = ({ q, tenant, state }: UserFilters) =>
  infiniteQueryOptions({
    queryKey: ["users", { q, tenant, state }],
    queryFn: ({ signal, pageParam }) => {
      const active = state === undefined ? undefined : state === "active";
      return answerOf(
        api.GET("/users", { params: { query: { q, tenant, is_active: active, cursor: pageParam } }, signal }),
      );
    },
    initialPageParam: "",
    getNextPageParam: (page) => cursorOf(page.next),
    placeholderData: keepPreviousData,
  });

export type JobsOfLeaver = "hold" | "cancel";

/** What would become of the jobs of a user; changes nothing. */
export const leavingQuery = (username: string, jobs: JobsOfLeaver) =>
  queryOptions({
    queryKey: ["leaving", username, jobs],
    queryFn: () => askToLeave(username, jobs, true),
    gcTime: 0,
  });

/** Cancelling is asked for until all running jobs were told to stop: one request does it for some of them. */
export async function deactivateUser(username: string, jobs: JobsOfLeaver): Promise<Leaving> {
  let done = await askToLeave(username, jobs, false);
  while (done.remaining > 0 && done.cancelled > 0) done = await askToLeave(username, jobs, false);
  return done;
}

const askToLeave = (username: string, jobs: JobsOfLeaver, isDryRun: boolean) =>
  answerOf(
    api.POST("/users/{username}/deactivate", {
      params: { path: { username }, header: once() },
      body: { jobs, dry_run: isDryRun },
    }),
  );

export const reactivateUser = (username: string) =>
  answerOf(api.PATCH("/users/{username}", { params: { path: { username } }, body: { is_active: true } }));
