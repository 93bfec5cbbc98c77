"""Attempts as jobs of another scheduler, such as Slurm: submitted, watched, talked to by files."""
