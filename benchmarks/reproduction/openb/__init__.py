"""The published simulator of fragmentation gradient descent: six policies on the openb workloads, exactly.

After hkust-adsl/kubernetes-scheduler-simulator (commit 8f3d641): Go's random numbers, by which it orders
arrivals and nodes (`go_random`), the lists of nodes and tasks (`workload`), where tasks go and what that
leaves (`replay`). docs/reproduction.md has the figures.
"""
