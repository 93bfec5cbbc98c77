"""Lucid: shortest service first, light jobs in pairs; `policy` decides, `profiler` runs new jobs briefly."""
