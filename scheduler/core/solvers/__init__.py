"""Decide which part of its time each job spends on each GPU model: Gavel's policies as optimisation problems.

D. Narayanan et al., "Heterogeneity-Aware Cluster Scheduling Policies for Deep Learning Workloads", OSDI'20.
All objectives are functions of the jobs' throughputs over one polytope of shares. `instance` holds the facts,
`polytope` the constraints, and each objective has a file; `solving` puts them together. Nothing here uses
rounds.
"""
