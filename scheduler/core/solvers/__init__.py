"""Which part of its time each job should spend on which GPU model: Gavel's family of policies as problems.

D. Narayanan et al., "Heterogeneity-Aware Cluster Scheduling Policies for Deep Learning Workloads", OSDI'20.
All objectives are functions of the jobs' throughputs over one polytope of shares. `instance` holds the facts,
`polytope` the constraints, one file an objective; `solving` puts them together. Nothing here uses rounds.
"""
