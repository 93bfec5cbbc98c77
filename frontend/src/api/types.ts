/** What the REST API says, by short names; `npm run types` writes the schema anew. The stream carries the same. */

import type { components } from "@/api/schema";

type Schemas = components["schemas"];

export type Me = Schemas["Me"];
export type Role = Schemas["Role"];
export type Token = Schemas["TokenOutput"];
export type NewToken = Schemas["NewTokenOutput"];
export type Scope = Schemas["Scope"];
export type TokenTerms = Schemas["TokenTerms"];
export type Tenant = Schemas["TenantOutput"];
export type AuditEntry = Schemas["AuditOutput"];
export type AuditStatus = Schemas["AuditStatusOutput"];
export type Member = Schemas["MemberOutput"];
export type Invitation = Schemas["InvitationOutput"];
export type NewInvitation = Schemas["NewInvitationOutput"];
export type InvitationOffer = Schemas["InvitationOffer"];
export type Quota = Schemas["Quota"];

export type Job = Schemas["Job"];
export type JobState = Schemas["JobState"];
export type Attempt = Schemas["Attempt"];
export type AttemptState = Schemas["AttemptState"];
export type Reason = Schemas["Reason"];
export type Why = Schemas["Why"];
export type Prediction = Schemas["Prediction"];
export type WhatIf = Schemas["WhatIf"];
export type WhatIfEffect = Schemas["WhatIfEffect"];
export type Foreseen = Schemas["Foreseen"];
export type CheckAnswer = Schemas["CheckAnswer"];
export type FieldProblem = Schemas["FieldProblem"];
export type LogChunk = Schemas["LogChunk"];
export type LogPage = Schemas["LogPage"];
export type MergedLogPage = Schemas["MergedLogPage"];
export type LogSearch = Schemas["LogSearch"];
export type LogHit = Schemas["LogHit"];
export type ProgressPoint = Schemas["ProgressPoint"];

export type Node = Schemas["Node"];
export type NodeCheck = Schemas["NodeCheck"];
export type NewNode = Schemas["NodeWithToken"];
export type Gpu = Schemas["Gpu"];
export type GpuModel = Schemas["GpuModel"];
export type VirtualCluster = Schemas["VirtualCluster"];
export type VirtualClusterPreemptions = Schemas["VirtualClusterPreemptions"];
export type JobPreemptions = Schemas["JobPreemptions"];
export type JobRunTime = Schemas["JobRunTime"];
export type Overrun = Schemas["Overrun"];
export type Plugins = Schemas["Plugins"];
export type PluginParameter = Schemas["PluginParameter"];
export type Cluster = Schemas["Cluster"];
export type ClusterSettings = Schemas["ClusterSettings"];
export type UsagePoint = Schemas["UsagePoint"];

export type Round = Schemas["Round"];
export type RoundDetail = Schemas["RoundDetail"];
export type RoundAction = Schemas["RoundAction"];
export type ClusterEvent = Schemas["Event"];

/** A page of a list; the addresses of its neighbours carry cursors. */
export interface Page<T> {
  results: T[];
  next: string | null;
  previous: string | null;
}
