"""Predictions: when jobs start, how long they run, what would change that."""
