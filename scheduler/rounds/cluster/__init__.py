"""The cluster as a whole: its settings, and what is in it."""
