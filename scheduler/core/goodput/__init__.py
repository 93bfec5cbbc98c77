"""How fast an elastic job makes progress on any number of GPUs: throughput times statistical efficiency.

A. Qiao et al., "Pollux: Co-adaptive Cluster Scheduling for Goodput-Optimized Deep Learning", OSDI'21; by GPU
model as S. Jayaram Subramanya et al., "Sia: Heterogeneity-aware, goodput-optimized ML-cluster scheduling",
SOSP'23. Mathematics of values: nothing here knows of rounds or snapshots. On `throughput` stand `fit` and
`gpu_models`, which learn its parameters from what `reports` keeps of progress lines, and `batch`, `speedups`
and `curve`, which use them.
"""
