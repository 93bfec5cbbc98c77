"""The market between virtual clusters as it is now: what is in force, who may act, and what pages show."""
