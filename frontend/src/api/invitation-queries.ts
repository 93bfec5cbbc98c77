/** What the pages read and change about invitations into tenants. */

import { queryOptions } from "@tanstack/react-query";

import { newIdempotencyKey, request } from "@/api/client";
import { everyPage } from "@/api/queries";
import type { Invitation, InvitationOffer, Me, NewInvitation, Role } from "@/api/types";

export const invitationsQuery = (tenant: string) =>
  queryOptions({
    queryKey: ["tenants", tenant, "invitations"],
    queryFn: ({ signal }) => everyPage<Invitation>(null, `/tenants/${tenant}/invitations`, signal),
  });

export const invite = (tenant: string, wanted: { role: Role; email: string; expires_in_days: number }) =>
  request<NewInvitation>("POST", `/tenants/${tenant}/invitations`, {
    body: wanted,
    idempotencyKey: newIdempotencyKey(),
  });

export const revokeInvitation = (tenant: string, key: string) =>
  request<undefined>("DELETE", `/tenants/${tenant}/invitations/${key}`);

/** What a link offers; `secret` is what stands behind its #. */
export const offerQuery = (secret: string) =>
  queryOptions({
    queryKey: ["invitation", secret],
    queryFn: ({ signal }) =>
      request<InvitationOffer>("POST", "/invitations/look", { body: { invitation: secret }, signal }),
    staleTime: Infinity,
    retry: false,
  });

export const acceptInvitation = (secret: string) =>
  request<{ name: string; role: Role }>("POST", "/invitations/accept", { body: { invitation: secret } });

export const joinByInvitation = (secret: string, username: string, password: string) =>
  request<Me>("POST", "/invitations/join", { body: { invitation: secret, username, password } });
