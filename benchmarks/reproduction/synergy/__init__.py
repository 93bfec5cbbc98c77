"""Synergy's published replay traces in its simulator's rounds of 300 s.

After msr-fiddle/synergy, directory simulator (commit 1bb2bed): profiles and jobs (`jobs`), and rounds under
FIFO, SRTF, LAS and FTF (`rounds`). docs/reproduction.md has the figures.
"""
