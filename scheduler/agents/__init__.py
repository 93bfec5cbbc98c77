"""Agents of nodes: their reports, their leases, and the emptying of nodes."""
