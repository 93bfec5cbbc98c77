"""Sessions into running jobs."""
