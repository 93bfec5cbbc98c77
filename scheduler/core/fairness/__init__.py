"""Measure whether sharing costs a tenant anything: its entitlement, what it received, and what it had alone.

These are pure functions, from the facts of a round to one `Division` for each virtual cluster, and from sums
over time to violations. docs/fairness.md defines the terms and figures.
"""
