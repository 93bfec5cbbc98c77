"""Launchers of parallel programs: what a replica runs where the job names one."""
