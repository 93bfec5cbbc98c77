"""Simulators of other people, rebuilt to compare figures with theirs: nothing of the platform uses them.

`gavel` is the one of Gavel's authors (`manage.py simulate --rounds gavel`), and their generator of workloads.
`pollux`, `muri`, `lucid` and `openb` (fragmentation gradient descent: bench_fgd.py) run their authors' workloads
from benchmarks/bench_NAME.py.
"""
