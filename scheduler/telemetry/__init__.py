"""What jobs and nodes do: output, measures, how fast job classes are, and the history of events."""
