"""Nodes and their GPUs: what there is, whether it is sound, who took it out of service."""
