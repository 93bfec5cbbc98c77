"""Dividing the cluster by cells, and advice on it."""
