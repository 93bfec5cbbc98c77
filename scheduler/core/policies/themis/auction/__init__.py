"""Partial-allocation auctions (Themis, NSDI'20, section 5): tables of what bundles are worth in, who gets
which and what it pays for it out. Knows nothing of jobs."""
