"""The published core of HiveD, built and called as it is; the project has no copy of its source."""
