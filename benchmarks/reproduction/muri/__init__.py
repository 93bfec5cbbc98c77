"""Muri's published simulator, event by event: what it measured and assumed, beside our engine.

After Rivendile/Muri, directory simulator (commit 4e69a78): jobs of its traces (`jobs`), how long iterations
take of jobs that share GPUs by turns (`interleaving`), the events under SRTF, SRSF, Tiresias (`baselines`)
and under Muri-S and Muri-L, which also choose who shares (`events`). docs/reproduction.md has the figures.
"""
