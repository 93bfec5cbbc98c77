"""Pollux: give GPUs to the jobs that progress most with them, by goodput (see `policy`)."""
