"""Reservations: nodes that are kept for a tenant from an announced instant to another."""
