"""From shares of time to rounds: what jobs are due on each GPU model, what they had, which has its turn.

D. Narayanan et al., "Heterogeneity-Aware Cluster Scheduling Policies for Deep Learning Workloads" (Gavel),
OSDI 2020, section 5: a policy decides which part of its time each job should spend on which GPU model; a
mechanism that knows nothing of the policy's aim makes rounds of that.
"""
