"""Sia: an integer program over GPU models and counts; `policy` decides, `program` solves."""
