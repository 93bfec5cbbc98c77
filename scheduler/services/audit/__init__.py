"""Forwarding of the audit log to other systems: in order, each entry at least once."""
