"""Serving pools: nodes that answer users' requests, and that are lent to jobs and asked back."""
