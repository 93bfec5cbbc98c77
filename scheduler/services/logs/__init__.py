"""What jobs write: stored, read, searched, and removed in the end."""
