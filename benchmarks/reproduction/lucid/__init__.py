"""Lucid's published simulator, to the second: what it measured and assumed, beside our engine.

After S-Lab-System-Group/Lucid, directory simulation (commit 63685a3): what was measured of jobs alone and in
pairs (`profiles`), the nodes of a virtual cluster (`nodes`), FIFO, SJF and QSSF (`queues`), the profiler
(`profiler`), and Lucid (`packing`). The list of jobs that it was run on is not to be had any more; `workload`
makes jobs of what is. Theirs goes second by second, ours from event to event. docs/reproduction.md has the
figures.
"""
