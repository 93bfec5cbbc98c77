"""Gavel's published rounds, to the second, only for comparing figures with those of its authors.

D. Narayanan et al., "Heterogeneity-Aware Cluster Scheduling Policies for Deep Learning Workloads", OSDI 2020,
section 5, and what its simulator (stanford-futuredata/gavel at c4fa400) does where the paper is silent. The
ordinary simulator (`scheduler.core.sim.engine`) runs the rounds of the platform; this one runs Gavel's.
`rounds` is the clock. `turns` decides which jobs have their turn, and leases them GPUs. The other modules
decide which part of its time each job should spend where. `run` runs an experiment in these rounds, and
`workload` draws the authors' jobs.
"""
