"""What happened, in order: the history of jobs, nodes and virtual clusters."""
