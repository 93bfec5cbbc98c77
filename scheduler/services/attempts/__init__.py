"""Attempts from their start to their end, and what is made of the end."""
