"""What jobs say: their output in numbered chunks, and their progress."""
