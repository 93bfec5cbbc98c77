"""Tiresias: `policy` decides, by attained service and its Gittins index."""
