"""Themis: `policy` decides; from jobs to apps, to what they bid at an auction, and to leases made real."""
