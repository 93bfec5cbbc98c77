"""Pollux's published simulator, in its own ticks: what it measured and assumed, beside our engine.

After petuum/adaptdl, branch osdi21-artifact, directory simulator (commit c793c70): its workloads and measured
profiles (`application`), jobs whose progress follows from these (`jobs`), Tiresias and Optimus as it has them
(`baselines`), Pollux with our searches (`pollux`), and the ticks (`ticks`). docs/reproduction.md has the
figures.
"""
