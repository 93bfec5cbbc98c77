/** What the routes about notifications, webhooks and budgets say; docs/notifications.md has the words. */

import type { components } from "@/api/schema";

type Schemas = components["schemas"];

export type NotificationSettings = Schemas["NotificationSettings"];
export type AddressAnswer = Schemas["AddressAnswer"];
export type Webhook = Schemas["Webhook"];
export type NewWebhook = Schemas["NewWebhook"];
export type Delivery = Schemas["Delivery"];
export type BudgetState = Schemas["BudgetState"];
export type BudgetTerms = Schemas["BudgetTerms"];
