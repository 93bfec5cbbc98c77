"""Simulators of other authors, rebuilt to compare figures with theirs. The product uses none of them.

Each runs its authors' workloads from benchmarks/bench_NAME.py: `lucid`, `muri`, `pai`, `pollux`, `synergy`;
`openb` runs those of fragmentation gradient descent from bench_fgd.py; `hived` builds the published core of
HiveD for bench_cells.py. Gavel's is a mode of `simulate` (`scheduler/simulation/gavel`).
"""
