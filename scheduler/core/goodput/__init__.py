"""How fast an elastic job makes progress on any number of GPUs: throughput times statistical efficiency.

A. Qiao et al., "Pollux: Co-adaptive Cluster Scheduling for Goodput-Optimized Deep Learning", OSDI'21; by GPU
model as S. Jayaram Subramanya et al., "Sia: Heterogeneity-aware, goodput-optimized ML-cluster scheduling",
SOSP'23. Everything here is mathematics: nothing knows of rounds or snapshots. `throughput` is the base. `fit`
and `gpu_models` learn its parameters from the progress lines that `reports` keeps; `batch` and `speedups` use
them.
"""
