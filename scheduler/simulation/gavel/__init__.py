"""Gavel's published rounds, to the second: to compare figures with those of its authors, and nothing else.

D. Narayanan et al., "Heterogeneity-Aware Cluster Scheduling Policies for Deep Learning Workloads", OSDI 2020,
section 5, and what its simulator (stanford-futuredata/gavel at c4fa400) does where the paper is silent. The
ordinary simulator (`scheduler.core.sim.engine`) runs the rounds of the platform; this one runs Gavel's.
`rounds` is the clock, `turns` says whose turn it is, `leases` on which GPUs; the other modules say which part
of its time each job should spend where. `run` makes an experiment of it, `workload` draws its authors' jobs.
"""
