"""Gandiva: `policy` decides, by time slices and trials of packings."""
