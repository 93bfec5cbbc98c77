"""Attempts: one execution of a job each, the GPUs it holds, and how it ends."""
