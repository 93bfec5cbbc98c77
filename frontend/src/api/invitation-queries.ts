/** What the pages read and change about invitations into tenants. */

import { queryOptions } from "@tanstack/react-query";

import { answerOf, api, once } from "@/api/client";
import { everyPage } from "@/api/pages";
import type { InvitationInputRequest } from "@/api/schema";

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
