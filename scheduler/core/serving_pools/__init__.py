"""Nodes of serving pools: how many are lent when, which return first, and what that leaves of a job.

A serving pool answers requests of users, more of them by day than by night. It lends the nodes that it does
not need to training (J. Li et al., "Aryl", arXiv 2202.07896; Lyra, EuroSys'23: capacity loans).
"""
