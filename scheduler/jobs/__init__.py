"""Jobs: checked, submitted, seen, changed."""
