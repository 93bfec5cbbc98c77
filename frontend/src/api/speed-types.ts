/** What the routes about speeds and targets say; docs/speeds.md has the words. */

import type { components } from "@/api/schema";

type Schemas = components["schemas"];

/** A kind of job at one size: its speeds by GPU model. */
export type SpeedRow = Schemas["SpeedRow"];
/** How fast a kind of job is on one GPU model. */
export type Speed = Schemas["SpeedCell"];
/** From where a speed is known, the most trustworthy first. */
export type SpeedSource = NonNullable<Speed["source"]>;
export type SpeedSetting = Pick<SpeedRow, "tenant" | "application" | "gpus" | "spread" | "partner">;
export type SpeedChange = Schemas["SpeedChange"];
export type SpeedImport = Schemas["SpeedImport"];

/** What one job gets of each GPU model, and why. */
export type JobSpeeds = Schemas["JobSpeeds"];
export type JobSpeed = Schemas["JobModelSpeed"];

/** What a virtual cluster's policy means its tenants and jobs to have of each GPU model. */
export type Targets = Schemas["Targets"];
export type TenantTargets = Schemas["TenantTargets"];
export type JobTargets = Schemas["JobTargets"];
