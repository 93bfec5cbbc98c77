"""Partial-allocation auctions (Themis, NSDI'20, section 5): from tables of what bundles are worth to the
winners and their payments. Knows nothing of jobs.
"""
