"""Alibaba PAI's comparison of run-time estimates: its published simulator's rules on jobs that we make.

After alibaba/clusterdata, directory cluster-trace-gpu-v2020/simulator (commit 8a7216f): one pool of GPUs,
jobs in an order, whoever does not fit is passed, nobody is stopped (`queue`). The list of 100,000 jobs that
it was run on is not to be had any more; `workload` makes jobs whose figures are those that the authors' table
gives away.
"""
