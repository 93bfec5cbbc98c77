"""Lending between virtual clusters: offers, loans, rules, credits, and the ledger of all of it."""
