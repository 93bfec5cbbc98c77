"""Guarantees that one virtual cluster lends to another for a while, at a price or in return for others.

This is in no paper: HiveD's cells (OSDI'20) never change hands, and elsewhere borrowing is a side effect of
idleness. Here an owner states what it can do without, until when and for what; nothing is ever lent without
that.
"""
