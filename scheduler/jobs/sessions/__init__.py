"""Sessions inside running jobs."""
