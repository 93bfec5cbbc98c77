"""The output of jobs."""
