"""Limits on how a policy may displace running jobs."""
