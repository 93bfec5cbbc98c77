"""Nodes of serving pools: how many are lent when, which come back first, and what that leaves of a job.

A serving pool answers requests of users, more of them by day than by night; what it does not need it lends
to training, by whole nodes (J. Li et al., "Aryl", arXiv 2202.07896; Lyra, EuroSys'23: capacity loans).
"""
