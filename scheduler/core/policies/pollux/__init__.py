"""Pollux: GPUs where they make the most progress, goodput by goodput (see `policy`)."""
