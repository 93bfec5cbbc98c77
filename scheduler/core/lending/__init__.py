"""Guarantees that one virtual cluster lends to another for a while, at a price or in return for others.

What no paper has: HiveD's cells (OSDI'20) never change hands, and what others borrow elsewhere is a side
effect of idleness. Here an owner says what it can do without, until when and for what; nothing is ever lent
without that.
"""
