"""Maintenance windows: nodes that close at an announced instant and open again by themselves."""
