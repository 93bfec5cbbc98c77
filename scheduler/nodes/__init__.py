"""Nodes and their GPUs: what there is, its health, and which actor took it out of service."""
