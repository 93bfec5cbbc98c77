"""Simulators of other people, rebuilt to compare figures with theirs: nothing of the platform uses them.

`gavel` is the one of Gavel's authors (`manage.py simulate --rounds gavel`), and their generator of workloads.
`pollux`, `muri` and `lucid` run their authors' workloads from benchmarks/bench_NAME.py, `openb` those of
fragmentation gradient descent from bench_fgd.py.
"""
