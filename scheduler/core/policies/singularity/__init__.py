"""Singularity: tiers of tenants with a guaranteed fraction of their GPUs; `policy` decides."""
