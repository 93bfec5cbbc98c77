"""Shockwave's market: what jobs that may change their batch size are expected to need, and who runs in which
of the coming rounds (P. Zheng et al., NSDI'23)."""
