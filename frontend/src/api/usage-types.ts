/** What the routes about use over time say; docs/metrics.md has the words. */

import type { components } from "@/api/schema";

type Schemas = components["schemas"];

export type Metrics = Schemas["NodeMetricsAnswer"];
export type JobMetrics = Schemas["JobMetricsAnswer"];
export type MeasuredAttempt = Schemas["MeasuredAttempt"];
/** One measure of one GPU, replica or machine. */
export type MeasureSeries = Schemas["Series"];
