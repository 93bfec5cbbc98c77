"""What the jobs of nodes will use at most, predicted."""
