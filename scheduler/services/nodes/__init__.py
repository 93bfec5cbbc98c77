"""Nodes: what agents report of them, what operators do with them, and when they are lost."""
