"""The audit log: who changed, was refused or read what, from where, from what to what (decision 0030)."""
