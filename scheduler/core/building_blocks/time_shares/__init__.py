"""From shares of time to rounds: what jobs are owed on each GPU model, what they got, and whose turn it is.

D. Narayanan et al., "Heterogeneity-Aware Cluster Scheduling Policies for Deep Learning Workloads" (Gavel),
OSDI 2020, section 5: a policy decides which part of its time each job should spend on which GPU model; a
mechanism that does not know the policy's objective turns that into rounds.
"""
