"""Shockwave: `policy` decides; its market says who runs in which of the coming rounds.

What jobs that may change their batch size are expected to need: P. Zheng et al., NSDI 2023.
"""
