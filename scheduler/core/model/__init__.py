"""The common terms: the facts of an instant, the plan, lifecycles, errors, wording, stored forms."""
