"""Agents of nodes: their reports, their leases, and the draining of nodes."""
